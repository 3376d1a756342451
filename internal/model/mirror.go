package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// MirrorChange is a change of a mirror: an entry, a gap, or the progress after a step. Exactly one
// of Item, Gap and Synced is set.
type MirrorChange struct {
	Cursor uint64 // a reader resumes after it
	Item   *sluice.MirroredItem
	Gap    *sluice.MirrorGap
	Synced *sluice.MirrorSynced
	Begun  uint64 // with Synced: MirrorEnd.Begun
}

// MirrorEnd is the progress of a mirror.
type MirrorEnd struct {
	Cursor      uint64 // of the last change; 0: none
	Incarnation string // of the source's log; "": nothing was synced yet
	Begun       uint64 // names the copy; it changes when the mirror is begun anew, or restored from a backup
}

// AppendJSON appends the change as one line of JSON. It copies JSON data as stored, but without
// white space.
func (c *MirrorChange) AppendJSON(b []byte) ([]byte, error) {
	var text []byte
	var err error
	kind := "synced"
	switch {
	case c.Item != nil:
		kind = "item"
		text, err = c.Item.MarshalJSON() // json.Marshal escapes HTML
	case c.Gap != nil:
		kind = "gap"
		text, err = json.Marshal(c.Gap)
	default:
		text, err = json.Marshal(c.Synced)
	}
	if err != nil {
		return b, fmt.Errorf("change of a mirror: %w", err)
	}
	b = append(strconv.AppendUint(append(b, `{"cursor":`...), c.Cursor, 10), `,"`+kind+`":`...)
	line := bytes.NewBuffer(b)
	if err := json.Compact(line, text); err != nil {
		return b, fmt.Errorf("change of a mirror: %w", err)
	}
	return append(line.Bytes(), '}'), nil
}
