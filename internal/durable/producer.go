package durable

import (
	"maps"
	"strings"
	"time"
)

// Producer is what is known of an idempotent producer: the last that was accepted of it.
type Producer struct {
	Epoch int64     `json:"epoch"`
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
}

// Claim is what a producer says of an append: who it is, in which of its lives, and its how manieth it is.
type Claim struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// Verdict is what becomes of a producer's append.
type Verdict int

// The verdicts.
const (
	Accepted   Verdict = iota
	Duplicate          // it is there already
	StaleEpoch         // a later life of the producer has written
	LateStart          // a new life has to begin with sequence 0
	Gap                // one before it is missing
)

// maxProducers bounds what is remembered of a stream's producers; the one that wrote longest ago is
// forgotten first.
const maxProducers = 1000

// maxProducerText bounds the bytes of their ids, so that the record fits into a message.
const maxProducerText = 384 << 10

// judge says what becomes of a claim, given what is known of its producer; nil: nothing.
func judge(known *Producer, c Claim) Verdict {
	switch {
	case known == nil && c.Seq == 0:
		return Accepted
	case known == nil:
		return Gap
	case c.Epoch < known.Epoch:
		return StaleEpoch
	case c.Epoch > known.Epoch && c.Seq != 0:
		return LateStart
	case c.Epoch > known.Epoch:
		return Accepted
	case c.Seq <= known.Seq:
		return Duplicate
	case c.Seq == known.Seq+1:
		return Accepted
	}
	return Gap
}

// producer returns what is known of a producer, nil if nothing is.
func (r *Record) producer(id string) *Producer {
	p, ok := r.Producers[id]
	if !ok {
		return nil
	}
	return &p
}

// accept enters a producer's append into a record whose producers another record shares.
func (r *Record) accept(c Claim, now time.Time) {
	next := make(map[string]Producer, len(r.Producers)+1)
	maps.Copy(next, r.Producers)
	r.Producers = next
	r.enter(c, now)
}

// enter enters a producer's append.
func (r *Record) enter(c Claim, now time.Time) {
	if r.Producers == nil {
		r.Producers = map[string]Producer{}
	}
	_, known := r.Producers[c.ID]
	r.Producers[c.ID] = Producer{Epoch: c.Epoch, Seq: c.Seq, At: now.UTC()}
	if known {
		return
	}
	text := 0
	for id := range r.Producers {
		text += idText(id)
	}
	for len(r.Producers) > maxProducers || text > maxProducerText {
		oldest := r.oldest(c.ID)
		text -= idText(oldest)
		delete(r.Producers, oldest)
	}
}

// idText returns how many bytes the id of a producer may take in a record.
func idText(id string) int {
	const escaped = 6 // of what JSON does not let pass
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>&"\`, r) }) {
		return escaped * len(id)
	}
	return len(id)
}

// oldest returns the producer but one that wrote longest ago.
func (r *Record) oldest(but string) (oldest string) {
	for id, p := range r.Producers {
		if id != but && (oldest == "" || p.At.Before(r.Producers[oldest].At)) {
			oldest = id
		}
	}
	return oldest
}
