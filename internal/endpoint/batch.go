package endpoint

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// batchType is the media type of the CloudEvents JSON batch format.
const batchType = "application/cloudevents-batch+json; charset=utf-8"

// packBatch renders the draft's event and as many of more as fit into a request. If there are
// several events, it returns references to them, and sets an id that is derived from their ids, so
// that a repeated batch has the same id. It takes events in the order of more and stops at the
// first that does not fit, so that the rest is still in order. names is nil if the draft's event is
// alone; then the body is a batch of one and keeps the event's id.
func (s *Sender) packBatch(d *draft, more []*sluice.Event) (names []sluice.EventRef) {
	head, _ := d.rendered.of(d.ev)
	d.batch = append(append(make([]byte, 0, (len(head)+64)*(1+len(more))), '['), head...)
	names = append(make([]sluice.EventRef, 0, 1+len(more)), refTo(d.ev))
	for _, ev := range more {
		one, _ := d.rendered.of(s.project(d.sub, ev))
		if int64(len(d.batch)+len(one)+len(",]")) > s.opts.MaxBody {
			break
		}
		d.batch = append(append(d.batch, ','), one...)
		names = append(names, refTo(ev))
	}
	d.batch = append(d.batch, ']')
	if len(names) == 1 {
		return nil
	}
	d.set(webhook.HeaderID, batchID(names))
	return names
}

func refTo(ev *sluice.Event) sluice.EventRef {
	return sluice.EventRef{EventID: ev.ID, Seq: ev.Seq, Path: ev.Path, Type: ev.Type}
}

// batchID returns the id of a batch. A zero byte ends each id in the hashed text, so that other ids
// with the same joined text give another batch id.
//
//	batch_9f86d081884c7d659a2feaa0c55ad015
func batchID(names []sluice.EventRef) string {
	hash := sha256.New()
	for _, one := range names {
		_, _ = hash.Write(append([]byte(one.EventID), 0)) // never fails
	}
	return "batch_" + hex.EncodeToString(hash.Sum(nil)[:16])
}
