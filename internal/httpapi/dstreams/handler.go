package dstreams

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	defaultMaxBody  = 10 << 20
	defaultLongPoll = 30 * time.Second
)

// Options holds the engines and settings of a handler.
type Options struct {
	Engine    *durable.Engine
	Anonymous []string      // namespaces with public streams
	AtRoot    string        // namespace with streams also below /v1/stream/; "": none
	LongPoll  time.Duration // how long a read waits for new data; default 30 s
	MaxBody   int64         // maximum size of an append; default 10 MiB
	PublicURL string        // public URL of the API; empty: relative URLs

	Incarnation func(ctx context.Context, namespace string) (string, error) // ID of a namespace's log; nil: unknown

	Subscriptions *streamsub.Engine
	JWKS          func(context.Context) ([]byte, error) // the keys that sign notices, as a JWK set
	KeyID         func() string                         // ID of the current signing key
}

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Rights httpkit.Rights
	// Admit returns a function that checks the events of an append before they are stored, as for
	// publishing. Size is the number of bytes of the request.
	Admit func(c echo.Context, size int) func(context.Context, []sluice.Event) error
	// Deleted is called after an attempt to delete a stream, with the result of that attempt. It
	// returns the error with which the request ends.
	Deleted func(ctx context.Context, namespace string, path sluice.Path, result error) error
	// UntilEnd returns a context that ends with ctx, with the server or with the caller's grant.
	UntilEnd func(ctx context.Context) (context.Context, context.CancelFunc)
}

// Handler handles the requests of the protocol.
type Handler struct {
	opts  Options
	needs Deps
}

// New returns a handler.
func New(opts Options, needs Deps) *Handler {
	opts.MaxBody = cmp.Or(opts.MaxBody, defaultMaxBody)
	opts.LongPoll = cmp.Or(opts.LongPoll, defaultLongPoll)
	return &Handler{opts, needs}
}

// Wait returns how long a long poll waits for new data.
func (s *Handler) Wait() time.Duration { return s.opts.LongPoll }

// MaxBody returns the maximum size of an append.
func (s *Handler) MaxBody() int64 { return s.opts.MaxBody }
