//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func compose(*testscript.TestScript, bool, []string) {}

func docker() {}
