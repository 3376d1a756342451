package durable

import "errors"

// ErrRace is in the chain of what Store.Commit returns if somebody else was faster.
var ErrRace = errors.New("the stream was changed concurrently")

func isRace(err error) bool { return errors.Is(err, ErrRace) }
