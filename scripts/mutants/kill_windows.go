package main

import "os/exec"

// killWhole leaves it at killing the command alone.
func killWhole(*exec.Cmd) {}
