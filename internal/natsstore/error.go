package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Error codes of JetStream for which nats.go has no constants.
const (
	codeInsufficientResources = 10023
	codeAccountResources      = 10002
	codeStorageResources      = 10047
	codeMemoryResources       = 10028
	codeStoreFailed           = 10077
	codeNoPeers               = 10005 // too few servers are running, or the leader does not know of them yet
	codeMaxConsumers          = 10026
	codeMaxStreams            = 10027
	codeMaxBytesRequired      = 10113
	codeMaxAckPending         = 10121
	codeMaxStreamBytes        = 10122
	codeHeaderTooLarge        = 10097
	codeMessageTooLarge       = 10054
	codeWrongLastSeq          = 10071 // the code of a lost compare-and-set on one replica
	codeWrongLastSeqConstant  = 10164 // another write is in flight, or a confirmed one is still being applied
	codeBatchIncomplete       = 10176
	codeDuplicateInFlight     = 10158 // the same id is being stored right now
	codeTooManyBatches        = 10210
	codeTooManyRequests       = 10167
)

// APICode returns the error code of JetStream, 0 if the error is not an API error of JetStream.
func APICode(err error) int {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return int(e.ErrorCode)
	}
	return 0
}

// IsConflict reports whether a compare-and-set failed: the stored revision is not the expected one.
// It is also true if a previous write of the same caller is still being applied.
func IsConflict(err error) bool {
	code := APICode(err)
	return code == codeWrongLastSeq || code == codeWrongLastSeqConstant ||
		errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists)
}

// isTransient reports whether the same request may succeed soon: there was no answer, or the server
// could not execute it yet.
func isTransient(err error) bool {
	switch APICode(err) {
	case codeBatchIncomplete, codeDuplicateInFlight, codeTooManyRequests:
		return true
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Code == 503 && e.ErrorCode != codeInsufficientResources && e.ErrorCode != codeStoreFailed
	}
	for _, e := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, jetstream.ErrNoStreamResponse, context.DeadlineExceeded,
		nats.ErrConnectionReconnecting, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
		errPullSilent, errPullEnded, ErrGap, errReconnect, ErrBehind,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// IsTransient reports whether NATS did not answer, or may answer differently soon: a call that
// failed with the error can be retried.
func IsTransient(err error) bool { return isTransient(err) }

// For how long a request is retried, and the timeout of one try: askFirst for the first, twice as
// long for each further one, at most askTimeout.
const (
	askPatience = 10 * time.Second
	askFirst    = 500 * time.Millisecond
	askTimeout  = 2 * time.Second
)

// Asked sends a small request that changes nothing, and retries it while there is no answer. A
// request is lost if its connection breaks, or if the server that it reaches is paused or is no
// longer the leader: the next try may reach another server. ask may be called several times, never
// at the same time, and must not change anything. When askPatience is over, Asked returns the error
// of the last try. It ends with ctx.
func Asked[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	wait := askFirst
	return retried(ctx, isTransient, func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		wait = min(2*wait, askTimeout)
		return ask(ctx)
	})
}

// AskedFor is Asked for a request that takes longer: timeout is the timeout of each try.
func AskedFor[T any](ctx context.Context, timeout time.Duration, ask func(context.Context) (T, error)) (T, error) {
	return retried(ctx, isTransient, func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return ask(ctx)
	})
}

// told sends a request that changes something, and retries it while no server receives it. If a
// server received it and does not answer within RequestTimeout, the change may or may not have been
// applied. On a cluster a write may be confirmed before it is applied on every server: until then
// even a writer of the same record that made the previous write gets the error that another write
// is in flight.
func (s *Store) told(ctx context.Context, tell func(context.Context) (uint64, error)) (uint64, error) {
	return retried(ctx, func(err error) bool {
		return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) || APICode(err) == codeWrongLastSeqConstant
	}, func() (uint64, error) { return written(ctx, s.Reachable, tell) })
}

func retried[T any](ctx context.Context, again func(error) bool, act func() (T, error)) (T, error) {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond), backoff.WithMaxElapsedTime(askPatience))
	return backoff.RetryWithData(func() (T, error) {
		answer, err := act()
		if err != nil && (ctx.Err() != nil || !again(err)) {
			return answer, backoff.Permanent(err)
		}
		return answer, err
	}, backoff.WithContext(wait, ctx))
}

// StoreError adds a code of package sluice to an error of NATS; an error without a matching code is
// returned as it is. The error of NATS stays in the chain.
func StoreError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return err
	}
	if e := callersError(err); e != nil {
		return fmt.Errorf("%w: %w", e, err)
	}
	return err
}

func callersError(err error) *sluice.Error {
	if e := limitError(err); e != nil {
		return e
	}
	switch {
	case IsGone(err):
		return sluice.Errorf(sluice.Unavailable, "a stream of the server is missing in NATS; /readyz and sluice doctor name it and the remedy")
	case errors.Is(err, nats.ErrMaxPayload):
		return sluice.Errorf(sluice.TooLarge, "the event exceeds the size limit of the NATS server; send less data or a reference to it")
	case isTransient(err), errors.Is(err, nats.ErrConnectionClosed):
		return sluice.Errorf(sluice.Unavailable, "the store does not respond at the moment; retry")
	}
	return nil
}

// limitError returns the error for an exceeded limit of JetStream, with advice; nil if err is about
// no limit.
func limitError(err error) *sluice.Error {
	switch APICode(err) {
	case codeMessageTooLarge:
		return sluice.Errorf(sluice.TooLarge, "the event exceeds the size limit of the log (max_msg_size); send less data or a reference to it")
	case codeHeaderTooLarge:
		return sluice.Errorf(sluice.TooLarge, "the event's attributes exceed the 64 KiB limit of the log; put them into the data")
	case codeAccountResources, codeStorageResources, codeMemoryResources:
		return full("the NATS account's storage is used up or reserved; shorten retentions, lower max_bytes, or raise the account's max_store")
	case codeTooManyBatches:
		return sluice.Errorf(sluice.QuotaExceeded, "the namespace has reached the NATS limit of open atomic batches (max_batch_inflight_per_stream); retry, or publish single events").
			With("retry_after", batchRetry)
	case codeMaxConsumers:
		return full("the namespace's log, or the NATS account, has reached its limit of consumers; delete subscriptions or raise max_consumers")
	case codeMaxStreams:
		return full("the NATS account has reached its limit of streams; delete namespaces or raise its max_streams")
	case codeMaxAckPending:
		return sluice.Errorf(sluice.Unprocessable, "the window exceeds the max_ack_pending of NATS; use a smaller window or raise it")
	case codeMaxStreamBytes:
		return sluice.Errorf(sluice.Unprocessable, "retention.max_bytes exceeds the NATS account's limit for one stream; use less or raise it")
	case codeMaxBytesRequired:
		return sluice.Errorf(sluice.Unprocessable, "the NATS account requires a size limit for each log; set retention.max_bytes")
	case codeStoreFailed:
		return notStored(err)
	case codeInsufficientResources:
		return storeCannotWrite()
	}
	return nil
}

const maxBytesExceeded = "maximum bytes exceeded"

// notStored distinguishes a full log from a store that cannot write: JetStream uses one code for
// both, and for each limit of the log.
func notStored(err error) *sluice.Error {
	for text, limit := range map[string]string{
		"maximum messages exceeded": "max_msgs", maxBytesExceeded: "max_bytes", "maximum messages per subject exceeded": "max_msgs_per_subject",
	} {
		if strings.Contains(err.Error(), text) {
			return full("the namespace's log has reached its %s and refuses new messages (discard: new); raise the limit or set discard: old", limit)
		}
	}
	return storeCannotWrite()
}

// fullRetry is the number of seconds after which a full store may have space again.
const fullRetry = 30

// batchRetry is the number of seconds after which an uncommitted batch is dropped.
const batchRetry = 2

func full(format string, args ...any) *sluice.Error {
	return sluice.Errorf(sluice.QuotaExceeded, format, args...).With("retry_after", fullRetry)
}

func storeCannotWrite() *sluice.Error {
	return sluice.Errorf(sluice.Unavailable, "the NATS server cannot store more: its disk, JetStream's share of it (max_file_store, nats.max_store) or the account's (max_file) is full; "+
		"the operator must free space, shorten retentions or raise the limit").With("reason", sluice.ReasonStorage).With("retry_after", fullRetry)
}

// IsTooLarge reports whether a message exceeds the size limit of the server or of the stream.
func IsTooLarge(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || APICode(err) == codeMessageTooLarge
}

// IsGone reports whether an error means that the stream does not exist.
func IsGone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) || APICode(err) == int(jetstream.JSErrCodeStreamNotFound)
}
