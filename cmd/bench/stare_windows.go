package main

import "errors"

func stare(uintptr) error { return errors.ErrUnsupported }
