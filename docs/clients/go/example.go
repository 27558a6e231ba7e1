// A noisy count, right and with half the noise that it needs. `go test` runs the frozen test on both; `example serve
// half` speaks the protocol.

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"
)

func count(scale float64) Mechanism {
	return func(data any, rng *rand.Rand) any {
		return float64(len(data.([]any))) + scale*(rng.ExpFloat64()-rng.ExpFloat64())
	}
}

func main() {
	scale := 1.0
	if len(os.Args) > 2 && os.Args[2] == "half" {
		scale = 0.5
	}
	if os.Args[1] == "serve" {
		if err := Serve(count(scale)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	test, err := Read(os.Args[len(os.Args)-1])
	if err == nil && os.Args[1] == "check" {
		var said string
		said, err = test.Check(1, count(scale))
		fmt.Println(said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[1] == "guess" { // what is guessed of the outputs that are read
		var guesses []string
		var tally [3]float64
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var output any
			if err := json.Unmarshal(lines.Bytes(), &output); err != nil {
				panic(err)
			}
			guess := test.Guess(output)
			tally[[3]int{1, 2, 0}[1+guess]]++
			guesses = append(guesses, fmt.Sprint(guess))
		}
		fmt.Printf("[%s]\n%v\n", strings.Join(guesses, ", "), test.LogWealth(tally))
	}
}
