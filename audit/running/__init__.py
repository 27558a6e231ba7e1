"""Mechanisms of users: functions, external programs, estimators, released libraries, and what their runs draw from."""
