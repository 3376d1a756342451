package model

import (
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// placeMark begins an ID of PlaceID.
const placeMark = "_"

// PlaceID returns the ID of an event that was stored in a namespace without one, from its sequence.
// Publishers cannot choose such an ID (CheckChosenID).
func PlaceID(namespace string, seq uint64) string {
	return placeMark + namespace + "-" + strconv.FormatUint(seq, 10)
}

// PlaceOf returns the sequence in an ID that has the form of PlaceID. The event at that sequence may
// have another ID: check it.
func PlaceOf(namespace, id string) (uint64, bool) {
	if !strings.HasPrefix(id, placeMark) {
		return 0, false
	}
	number, ok := strings.CutPrefix(id[len(placeMark):], namespace+"-")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, err == nil
}

// CheckChosenID returns an error (InvalidRequest) if a publisher of a namespace may not choose an ID
// because it has the form of PlaceID.
func CheckChosenID(namespace, id string) error {
	if _, given := PlaceOf(namespace, id); given {
		return sluice.Errorf(sluice.InvalidRequest, "the id %q has the form of ids that the server gives to events without one; choose another, or omit it", id).With("field", "id")
	}
	return nil
}
