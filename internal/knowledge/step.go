package knowledge

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Backoff after a failed attempt, the same as for stream subscriptions.
const (
	firstWait = time.Second
	mostWait  = time.Minute
	spread    = 0.2

	maxError  = 1024 // bytes of a worker's error
	leaseOver = "the lease ended without a result"
)

// renewedFor returns the record for a content and a model: r itself if it is for these, otherwise a
// new one. The new record continues the generation, so that earlier tokens stay fenced.
func (r Record) renewedFor(model, fingerprint string) Record {
	if r.Model == model && r.Fingerprint == fingerprint {
		return r
	}
	return Record{
		ID: r.ID, Revision: r.Revision, Type: r.Type, Entry: r.Entry, Pair: r.Pair,
		Model: model, Fingerprint: fingerprint, State: sluice.JobPending, Generation: r.Generation,
	}
}

// asOf returns the record as of a time: a lease that has ended counts as a failed attempt.
func (r Record) asOf(now time.Time, most int) Record {
	if r.State != sluice.JobClaimed || now.Before(r.Until) {
		return r
	}
	r.State, r.Error, r.Worker = sluice.JobPending, leaseOver, ""
	if r.Attempts >= most {
		r.State = sluice.JobFailed
	}
	r.Until = time.Time{}
	return r
}

// claim gives the job to a worker.
func (r Record) claim(worker string, lease time.Duration, now time.Time) Record {
	r.State, r.Worker, r.Until, r.At = sluice.JobClaimed, worker, now.Add(lease).UTC(), now.UTC()
	r.Generation++
	r.Attempts++
	r.NotBefore = time.Time{}
	return r
}

// fence returns an error (Fenced) unless a token is that of the current claim.
func (r *Record) fence(b badge, now time.Time) error {
	if r.State != sluice.JobClaimed || r.Generation != b.Generation || r.Fingerprint != b.Fingerprint || !now.Before(r.Until) {
		return sluice.Errorf(sluice.Fenced, "the claim has ended or was superseded, or the entry has another content since; claim again")
	}
	return nil
}

// renewed extends the lease.
func (r Record) renewed(lease time.Duration, now time.Time) Record {
	r.Until = now.Add(lease).UTC()
	return r
}

// completed ends the job of a record, which must have its result.
func (r Record) completed(now time.Time) Record {
	r.State, r.Until, r.NotBefore, r.Error, r.At = done, time.Time{}, time.Time{}, "", now.UTC()
	return r
}

// Failure is a worker's report that a job could not be done.
type Failure struct {
	Error string
	Final bool // no other attempt can succeed
}

// failed notes a failed attempt. The job is tried again later, unless the failure is final or this
// was the last attempt. Jitter is from 0 to 1.
func (r Record) failed(f Failure, most int, jitter float64, now time.Time) Record {
	r.State, r.Until, r.Worker, r.At = sluice.JobPending, time.Time{}, "", now.UTC()
	r.Error = f.Error[:min(len(f.Error), maxError)]
	if f.Final || r.Attempts >= most {
		r.State = sluice.JobFailed
		return r
	}
	wait := mostWait
	if r.Attempts < 7 {
		wait = min(firstWait<<max(r.Attempts-1, 0), mostWait)
	}
	r.NotBefore = now.Add(time.Duration(float64(wait) * (1 - spread + 2*spread*jitter))).UTC()
	return r
}

// again makes a failed job pending, as if it had never been tried.
func (r Record) again(now time.Time) Record {
	r.State, r.Attempts, r.NotBefore, r.At = sluice.JobPending, 0, time.Time{}, now.UTC()
	return r
}

// effective returns the friction of a comparison after the discount (S3-91).
func (r *Record) effective() float64 { return sluice.Effective(r.Friction, r.Pair.Discount) }
