package durable

import "errors"

// ErrRace is in the chain of the error of Store.Commit after a concurrent change.
var ErrRace = errors.New("the stream was changed concurrently")

func isRace(err error) bool { return errors.Is(err, ErrRace) }
