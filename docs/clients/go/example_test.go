package main

import "testing"

func TestTheRightOnePassesAndHalfTheNoiseIsRefuted(t *testing.T) {
	test, err := Read("../count.json")
	if err != nil {
		t.Fatal(err)
	}
	said, refuted := test.Check(1, count(1))
	if refuted != nil {
		t.Fatal(refuted)
	}
	t.Log(said)
	if said, refuted = test.Check(1, count(0.5)); refuted == nil {
		t.Fatal(said)
	}
	t.Log(refuted)
}
