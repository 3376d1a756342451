package wake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// callbackBody is a callback as it comes (S1-71…77). What S1 does not know is let pass: a later one may know it.
type callbackBody struct {
	Epoch  *uint64 `json:"epoch"`
	WakeID string  `json:"wake_id"`
	Acks   []struct {
		Path   string `json:"path"`
		Offset string `json:"offset"`
	} `json:"acks"`
	Subscribe   []string `json:"subscribe"`
	Unsubscribe []string `json:"unsubscribe"`
	Done        bool     `json:"done"`
}

// ParseCallback reads the body of a callback. Offsets are read by parseOffset; -1 is before everything. Codes
// WakeInvalid (S1-85), and WakeOffset for what is no offset or no path in an acknowledgement (S1-89).
func ParseCallback(body []byte, parseOffset func(string) (uint64, error)) (Callback, error) {
	var b callbackBody
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&b); err != nil {
		return Callback{}, sluice.Errorf(sluice.WakeInvalid, "the body is not a callback: %s", plain(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Callback{}, sluice.Errorf(sluice.WakeInvalid, "there is something after the JSON value")
	}
	if max(len(b.Acks), len(b.Subscribe), len(b.Unsubscribe)) > MaxStreams {
		return Callback{}, sluice.Errorf(sluice.WakeInvalid, "a callback names %d streams at most for each purpose", MaxStreams)
	}
	if b.Epoch == nil {
		return Callback{}, sluice.Errorf(sluice.WakeInvalid, "epoch is missing")
	}
	cb := Callback{Epoch: *b.Epoch, WakeID: b.WakeID, Done: b.Done}
	for _, ack := range b.Acks {
		p := Position{Path: sluice.Path(ack.Path)} // one that is none is not followed either
		if ack.Offset != before {
			seq, err := parseOffset(ack.Offset)
			if err != nil {
				seq = beyond // it is judged when the consumer is known
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

// names returns the streams that a callback names and whose state decides about it.
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
	beyond = ^uint64(0) // of every stream
)

// paths reads paths, of which nothing is looked at but the form (register C15).
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

// plain says what is wrong with JSON without words of Go.
func plain(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "the field " + e.Field + " cannot be a JSON " + e.Value
	}
	return "it is not valid JSON"
}
