package wake

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// callbackBody is a callback's JSON (S1-71…77). Unknown fields are ignored, because a later version
// may define them.
type callbackBody struct {
	Epoch       *uint64       `json:"epoch"`
	WakeID      string        `json:"wake_id"`
	Acks        list[ackBody] `json:"acks"`
	Subscribe   list[string]  `json:"subscribe"`
	Unsubscribe list[string]  `json:"unsubscribe"`
	Done        bool          `json:"done"`
}

type ackBody struct {
	Path   string `json:"path"`
	Offset string `json:"offset"`
}

// list is a JSON array of at most MaxStreams elements. A longer one is refused before memory is
// allocated for its elements.
type list[T any] []T

// UnmarshalJSON reads the array. Errors are those of jsonarray.Decode.
func (l *list[T]) UnmarshalJSON(data []byte) (err error) {
	*l, err = jsonarray.Decode[T](data, MaxStreams)
	return err //nolint:wrapcheck // plain rewords it
}

// ParseCallback parses the body of a callback. It parses offsets with parseOffset, except -1, which
// is before everything. Code WakeInvalid (S1-85). It does not refuse an invalid offset or path in
// an acknowledgement; Step does, with WakeOffset (S1-89).
func ParseCallback(body []byte, parseOffset func(string) (uint64, error)) (Callback, error) {
	var b callbackBody
	if err := json.Unmarshal(body, &b); err != nil {
		return Callback{}, sluice.Errorf(sluice.WakeInvalid, "the body is not a callback: %s", plain(err))
	}
	if b.Epoch == nil {
		return Callback{}, sluice.Errorf(sluice.WakeInvalid, "epoch is missing")
	}
	cb := Callback{Epoch: *b.Epoch, WakeID: b.WakeID, Done: b.Done}
	for _, ack := range b.Acks {
		p := Position{Path: sluice.Path(ack.Path)} // Step refuses an invalid path like one that is not followed
		if ack.Offset != before {
			seq, err := parseOffset(ack.Offset)
			if err != nil {
				seq = beyond // Step refuses it, once the consumer is known
			}
			p.Acked = seq
		}
		cb.Acks = append(cb.Acks, p)
	}
	var err error
	if cb.Subscribe, err = paths("subscribe", b.Subscribe); err != nil {
		return Callback{}, err
	}
	cb.Unsubscribe, err = paths("unsubscribe", b.Unsubscribe)
	return cb, err
}

// names returns the streams in a callback whose state its outcome depends on.
func (cb *Callback) names() []sluice.Path {
	paths := slices.Clone(cb.Subscribe)
	for _, ack := range cb.Acks {
		if _, err := sluice.ParsePath(string(ack.Path)); err == nil {
			paths = append(paths, ack.Path)
		}
	}
	return paths
}

const (
	before = "-1"       // S1-19
	beyond = ^uint64(0) // beyond the end of every stream
)

// paths parses paths; it checks only their syntax (register C15).
func paths(field string, texts []string) ([]sluice.Path, error) {
	var all []sluice.Path
	for _, text := range texts {
		path, err := sluice.ParsePath(text)
		if err != nil {
			return nil, sluice.Errorf(sluice.WakeInvalid, "%s: %v", field, err)
		}
		all = append(all, path)
	}
	return all, nil
}

// plain describes a JSON error without terms of Go.
func plain(err error) string {
	switch e, ok := errors.AsType[*json.UnmarshalTypeError](err); {
	case ok && e.Field != "":
		return "the field " + e.Field + " cannot be a JSON " + e.Value
	case ok:
		return "a JSON " + e.Value + " is of an unexpected type"
	case errors.Is(err, jsonarray.ErrTooMany):
		return "it names more than " + strconv.Itoa(MaxStreams) + " streams for one purpose"
	case errors.Is(err, jsonarray.ErrNotArray):
		return "acks, subscribe and unsubscribe must be arrays"
	}
	return "it is not valid JSON"
}
