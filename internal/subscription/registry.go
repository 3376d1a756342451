package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Records stores the records of one kind by key. A revision of 0 means "no record".
type Records[T any] interface {
	// Get returns the record and its revision. Code NotFound if it does not exist.
	Get(ctx context.Context, key string) (T, uint64, error)
	// Put stores the record and returns its new revision. Code Conflict unless the stored revision
	// is the given one; a deleted record counts as absent.
	Put(ctx context.Context, key string, record T, revision uint64) (uint64, error)
	// Delete removes the record. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
}

// Subscriptions stores the subscriptions, including their secrets and resolved starts. It stores
// the system events of a subscription (Untold) atomically with the rest, and removes them when they
// are published.
type Subscriptions interface {
	Records[*sluice.Subscription]
	// RequireUnused returns an error (SubscriptionDiffers) if a mirror has the ID.
	RequireUnused(ctx context.Context, id string) error
	// List returns all subscriptions, each with its revision, in no particular order.
	List(ctx context.Context) ([]*sluice.Subscription, error)
	// Retire removes the subscription, keeps its system events for publication, and sets its
	// revision. Code Conflict unless the stored revision is the subscription's.
	Retire(ctx context.Context, sub *sluice.Subscription) error
}

// Logs gives access to the namespaces' logs.
type Logs interface {
	// LastSeq returns the last sequence of a namespace's log, 0 if it is empty. Code NotFound if
	// the namespace does not exist.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	// Bounds returns the sequences of the first stored event and of the last one.
	Bounds(ctx context.Context, namespace string) (first, last uint64, err error)
	// EventByID returns the event with the id. Code NotFound.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// Endpoints checks the targets of requests.
type Endpoints interface {
	// Check returns an error if an endpoint is not allowed. Codes: InsecureURL, BlockedAddress,
	// InvalidRequest.
	Check(ctx context.Context, endpoint sluice.Endpoint) error
	// Handshake asks a subscription's endpoint for its agreement. Codes: Unprocessable if the
	// endpoint does not agree; QuotaExceeded if the caller has triggered too many requests.
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
}

// Consumers manages the consumers of subscriptions. All methods are idempotent.
type Consumers interface {
	// Expect says that a subscription is about to be stored for the first time.
	Expect(sub *sluice.Subscription)
	Ensure(ctx context.Context, sub *sluice.Subscription) error
	Remove(ctx context.Context, sub *sluice.Subscription) error
	// Place returns the sequence of the first event that the subscription may not have settled.
	Place(ctx context.Context, sub *sluice.Subscription) (uint64, error)
}

// Quota limits the number of subscriptions.
type Quota interface {
	// Enter counts a subscription that is about to be stored; a second call for it changes nothing.
	// Code QuotaExceeded if its namespace or its creator has reached the limit.
	Enter(ctx context.Context, sub *sluice.Subscription) error
	// Move counts the new target of a stored subscription. Code QuotaExceeded if its creator has
	// too many subscriptions with that target.
	Move(sub *sluice.Subscription) error
	// Leave undoes Enter: the subscription was not stored.
	Leave(id string)
	// Trial returns a function like Enter that counts only its own calls and reserves nothing.
	Trial() func(context.Context, *sluice.Subscription) error
}

// Access decides about permissions.
type Access interface {
	// MaySubscribe returns an error unless the caller (sluice.CallerFrom) may access everything
	// that the subscription covers: NotFound, CapabilityRequired, Forbidden, Unavailable.
	MaySubscribe(ctx context.Context, sub *sluice.Subscription) error
	// Owns reports whether the caller is the creator of a subscription. Call it only for a caller
	// with the creator's principal.
	Owns(ctx context.Context, sub *sluice.Subscription) bool
	// Shows reports whether the caller may see an event.
	Shows(ctx context.Context, ev *sluice.Event) bool
}

// Catalogue checks event types.
type Catalogue interface {
	// CheckTypes returns an error (UnknownEventType) if a filter names an unknown type in a
	// namespace with a strict catalogue.
	CheckTypes(namespace string, types []string) error
}

// Reservation names the subscription that was created under a key. It prevents duplicates.
type Reservation struct {
	Subscription string `json:"subscription"`
	Config       string `json:"config"` // hash of the requested configuration
}

// Deps holds the dependencies of a registry. All are required except those that may be nil.
type Deps struct {
	Subscriptions Subscriptions
	Reservations  Records[Reservation]
	Logs          Logs
	Endpoints     Endpoints
	Consumers     Consumers
	Replays       Replays
	ReplayLogs    ReplayLogs
	Ledger        *ledger.Ledger
	Announce      Announcer
	Now           func() time.Time
	// ReplayWindow is the replay window of subscriptions that name none (S0-50).
	ReplayWindow sluice.Duration
	Quota        Quota  // nil: unlimited
	Access       Access // nil: unrestricted

	Catalogue Catalogue     // nil: any type
	Labels    filter.Labels // static labels of event types; nil: none
	Filters   *filter.Pool  // evaluates the filters of dry runs; nil: a pool without limits

	// Applied waits a short time at most until this replica acts on the changes of subscriptions up
	// to a revision; nil: no wait.
	Applied func(ctx context.Context, revision uint64)

	// Payer returns the principal that is charged for a subscription's filter; "" is the operator.
	// nil: always the operator.
	Payer func(sub *sluice.Subscription) string
}

// Registry creates, changes and ends subscriptions. Its methods are safe for concurrent use.
type Registry struct{ needs Deps }

// New returns a registry.
func New(needs Deps) *Registry {
	if needs.Filters == nil {
		needs.Filters = filter.NewPool(filter.Rates{})
	}
	return &Registry{needs: needs}
}

// Create creates a subscription with its consumer, and returns it with its secret, and true. If a
// duplicate exists, by idempotency key (S0-26) or, without one, by structure (S0-27), it returns
// that without its secret, and false (S0-28). If the client chose an ID, Create is Put.
//
// Codes: those of an invalid or impossible request; NotFound if there is no such namespace;
// Conflict for an idempotency key that was used with a different configuration; QuotaExceeded.
func (r *Registry) Create(ctx context.Context, req *Request, by string) (*sluice.Subscription, bool, error) {
	if req.ID != "" {
		return r.Put(ctx, req.ID, req, by)
	}
	sub, err := r.named(ctx, req, by)
	if err != nil {
		return nil, false, err
	}
	found, created, err := r.reserve(ctx, sub)
	if err != nil {
		return nil, false, err
	}
	return r.ready(ctx, found, created)
}

// named is prepare with a new ID for the subscription.
func (r *Registry) named(ctx context.Context, req *Request, by string) (*sluice.Subscription, error) {
	sub, err := r.prepare(ctx, req, by)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("generate an ID: %w", err)
	}
	sub.ID = id.String()
	return sub, nil
}

// Put creates a subscription under the client's ID, like Create. If one with the same configuration
// exists, it returns that without its secret, and false (S1-116, C09).
//
// Codes: as for Create; SubscriptionDiffers if one with a different configuration exists.
func (r *Registry) Put(ctx context.Context, id string, req *Request, by string) (*sluice.Subscription, bool, error) {
	if req.ID != "" && req.ID != id {
		return nil, false, sluice.Errorf(sluice.InvalidRequest, "the body's id %q is not the path's %q", req.ID, id)
	}
	if err := streams.CheckSubscriptionID(id); err != nil {
		return nil, false, err
	}
	found, err := r.same(ctx, id, req, by)
	if err != nil {
		return nil, false, err
	}
	if found != nil {
		return r.ready(ctx, found, false)
	}
	sub, err := r.prepare(ctx, req, by)
	if err != nil {
		return nil, false, err
	}
	sub.ID = id
	return r.storeOrRepeat(ctx, req, sub)
}

// storeOrRepeat stores a requested subscription under its ID, or returns the existing one that the request repeats.
func (r *Registry) storeOrRepeat(ctx context.Context, req *Request, sub *sluice.Subscription) (*sluice.Subscription, bool, error) {
	for {
		existing, err := r.load(ctx, sub.ID)
		if err == nil {
			if err = r.repeats(ctx, req, sub, existing); err != nil {
				return nil, false, err
			}
			return r.ready(ctx, existing, false)
		}
		if sluice.CodeOf(err) != sluice.SubscriptionMissing {
			return nil, false, err
		}
		if stored, err := r.storeNew(ctx, sub); stored != nil || err != nil {
			return stored, stored != nil, err
		}
	}
}

// storeNew stores a new subscription, creates its consumer, and returns it with its secret. It
// returns nil if another caller has created one with its ID meanwhile.
func (r *Registry) storeNew(ctx context.Context, sub *sluice.Subscription) (*sluice.Subscription, error) {
	if err := r.needs.Subscriptions.RequireUnused(ctx, sub.ID); err != nil {
		return nil, err // before the endpoint is asked for its agreement
	}
	switch err := r.store(ctx, sub); {
	case sluice.CodeOf(err) == sluice.Conflict:
		return nil, nil //nolint:nilnil // another caller has created it
	case err != nil:
		return nil, err
	}
	ready, _, err := r.ready(ctx, sub, true)
	return ready, err
}

// same returns the existing subscription of mode wake with the ID if the request repeats it, and
// nil if the request needs further checks. It reports a difference before the URL is checked,
// because the URL may have become unreachable (S1-108, S1-109). It first checks the caller's
// permission to subscribe, so that others learn nothing.
func (r *Registry) same(ctx context.Context, id string, req *Request, by string) (*sluice.Subscription, error) {
	want, err := req.subscription()
	if err != nil || want.Mode != sluice.Wake {
		return nil, nil //nolint:nilerr,nilnil // prepare reports the error
	}
	want.ID, want.Namespace = id, cmp.Or(want.Namespace, sluice.DefaultNamespace)
	complete(want)
	existing, err := r.load(ctx, id)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		return nil, nil //nolint:nilnil // nil: there is no such subscription
	}
	if err != nil {
		return nil, err
	}
	if err := r.maySubscribe(ctx, want); err != nil {
		return nil, err
	}
	want.CreatedBy, want.Grant = by, model.CallerFrom(ctx).Binding()
	return existing, r.repeats(ctx, req, want, existing)
}

// repeats returns an error (SubscriptionDiffers) unless the request asks for the existing
// subscription as it is.
func (r *Registry) repeats(ctx context.Context, req *Request, want, existing *sluice.Subscription) error {
	bounded := want.Grant != "" || want.CreatedBy == string(sluice.Anonymous)
	// The caller must not learn the configuration of another owner's subscription.
	if bounded && (existing.CreatedBy != want.CreatedBy || !r.owns(ctx, existing)) {
		return sluice.Errorf(sluice.SubscriptionDiffers, "the id is in use; choose another one")
	}
	return sameAs(req, want, existing)
}

// sameAs returns an error (SubscriptionDiffers) unless the request matches the existing
// subscription.
func sameAs(req *Request, want, existing *sluice.Subscription) error {
	if want.Mode == sluice.Wake && req.Metadata == nil {
		want.Metadata = existing.Metadata // metadata is mutable, and not part of S1
	}
	if req.ReplayWindow == 0 {
		want.ReplayWindow = existing.ReplayWindow // the default is a setting of the server, which can change
	}
	wantHash, err := configHash(want)
	if err != nil {
		return err
	}
	hash, err := configHash(existing)
	if err != nil {
		return err
	}
	enabled := req.Enabled == nil || *req.Enabled == existing.Enabled
	if wantHash == hash && enabled && sameSecret(req.Endpoint.Secret, existing) && sameCredentials(req.Endpoint, existing) && existing.State != sluice.Cancelled {
		return nil
	}
	change := "change it with PATCH (sluice sub edit), or delete it first (sluice sub rm)"
	if existing.Mode == sluice.Wake {
		change = "it cannot be changed, so delete it first (sluice sub rm)"
	}
	return sluice.Errorf(sluice.SubscriptionDiffers, "subscription %q exists with a different configuration; %s", want.ID, change).
		With("revision", existing.Revision)
}

// ready creates the subscription's consumer if it is missing, and returns the subscription, with
// its secret if it was just created. If creating the consumer fails, a repeated request completes
// the creation. If the consumer can never be created, ready deletes the subscription.
func (r *Registry) ready(ctx context.Context, sub *sluice.Subscription, created bool) (*sluice.Subscription, bool, error) { //nolint:revive // created is a result on its way
	if err := r.needs.Consumers.Ensure(ctx, sub); err != nil {
		err = fmt.Errorf("ensure consumer of %s: %w", sub.ID, err)
		if code := sluice.CodeOf(err); created && (code == sluice.QuotaExceeded || code == sluice.Unprocessable) {
			err = errors.Join(err, unlessMissing(r.Delete(shutdown.Lasting(ctx), sub.ID, sub.CreatedBy)))
		}
		return nil, false, err
	}
	if !created {
		return sub, false, nil
	}
	// The caller may have lost its access meanwhile, before the revocation could see the
	// subscription.
	if err := r.maySubscribe(ctx, sub); err != nil && sluice.CodeOf(err) != sluice.Unavailable {
		return nil, false, errors.Join(err, unlessMissing(r.Delete(shutdown.Lasting(ctx), sub.ID, sub.CreatedBy)))
	}
	return withSecret(sub), true, nil
}

// prepare returns the requested subscription, checked and complete except for its ID. It stores
// nothing, so all checks come before the first write (S0-55).
func (r *Registry) prepare(ctx context.Context, req *Request, by string) (*sluice.Subscription, error) {
	sub, err := req.subscription()
	if err != nil {
		return nil, err
	}
	sub.Namespace = cmp.Or(sub.Namespace, sluice.DefaultNamespace)
	sub.ReplayWindow = cmp.Or(sub.ReplayWindow, r.needs.ReplayWindow)
	complete(sub)
	if err := check(sub); err != nil {
		return nil, err
	}
	if err := r.maySubscribe(ctx, sub); err != nil {
		return nil, err
	}
	if err := r.checkTypes(sub); err != nil {
		return nil, err
	}
	if len(sub.Endpoint.Exec) == 0 {
		if err := r.needs.Endpoints.Check(ctx, sub.Endpoint); err != nil {
			return nil, ofURL(err)
		}
	}
	now := r.needs.Now().UTC()
	if err := takeSecrets(sub, now); err != nil {
		return nil, err
	}
	last, err := r.needs.Logs.LastSeq(ctx, sub.Namespace)
	if err != nil {
		return nil, err
	}
	if sub.From, err = sluice.ParseStart(sub.Start, last+1); err != nil {
		return nil, err
	}
	sub.State = sluice.Active
	if !sub.Enabled {
		sub.State = sluice.Paused
	}
	sub.CreatedBy, sub.Grant, sub.CreatedAt, sub.UpdatedAt = by, model.CallerFrom(ctx).Binding(), now, now
	return sub, nil
}

// shakeHands asks the endpoint for its agreement, if the subscription requires a handshake. Nothing
// else is sent before the endpoint agrees.
func (r *Registry) shakeHands(ctx context.Context, sub *sluice.Subscription) (err error) {
	sub.Agreed = nil
	if sub.Endpoint.Handshake {
		sub.Agreed, err = r.needs.Endpoints.Handshake(ctx, sub)
	}
	return err
}

// maySubscribe returns an error unless the caller may access everything that the subscription
// covers (S0-54).
func (r *Registry) maySubscribe(ctx context.Context, sub *sluice.Subscription) error {
	if r.needs.Access == nil {
		return nil
	}
	return r.needs.Access.MaySubscribe(ctx, sub)
}

func (r *Registry) owns(ctx context.Context, sub *sluice.Subscription) bool {
	return r.needs.Access == nil || r.needs.Access.Owns(ctx, sub)
}

func (r *Registry) shows(ctx context.Context, ev *sluice.Event) bool {
	return r.needs.Access == nil || r.needs.Access.Shows(ctx, ev)
}

// event returns the event with an ID. Code NotFound if it does not exist or is hidden from the
// caller.
func (r *Registry) event(ctx context.Context, namespace, id string) (sluice.Event, error) {
	ev, err := r.needs.Logs.EventByID(ctx, namespace, id)
	if err == nil && !r.shows(ctx, &ev) {
		return sluice.Event{}, sluice.Errorf(sluice.NotFound, "event not found, or not visible to you")
	}
	return ev, err
}

// checkTypes returns an error (UnknownEventType) if the filter names an unknown type (S4-64).
func (r *Registry) checkTypes(sub *sluice.Subscription) error {
	if r.needs.Catalogue == nil {
		return nil
	}
	return r.needs.Catalogue.CheckTypes(sub.Namespace, sub.Filter.Types)
}

// complete sets defaults and derived fields.
func complete(sub *sluice.Subscription) {
	sub.SetDefaults()
	sub.ReplayWindowS = int64(sub.ReplayWindow.Std().Seconds()) // S0-53
	sub.Endpoint.TLS = sub.Endpoint.TLS.Dated()
}

// check validates the subscription by itself, and returns the first error.
func check(sub *sluice.Subscription) error {
	if err := checkMode(sub.Mode); err != nil {
		return err
	}
	if err := sub.Validate(); err != nil {
		return err
	}
	if err := retry.Check(sub.Policy.Retry); err != nil {
		return err
	}
	if body := sub.Policy.Body; body != nil {
		if _, err := filter.CompileTemplate(body); err != nil {
			return err
		}
	}
	_, err := filter.Compile(sub.Filter)
	return err
}

// ofURL adds the field endpoint.url to an error that names no field.
func ofURL(err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Details["field"] != nil {
		return err
	}
	named := &sluice.Error{Code: e.Code, Message: e.Message, Details: maps.Clone(e.Details)}
	return named.With("field", "endpoint.url")
}

func checkMode(mode sluice.Mode) error {
	switch mode {
	case sluice.Push, sluice.Wake:
		return nil
	case sluice.Mirroring: // package mirror creates mirrors
	}
	return sluice.Errorf(sluice.Unprocessable, "mode %q: use \"push\", \"wake\" or \"mirror\"", mode).With("field", "mode")
}

func wakeNotSupported() error {
	return sluice.Errorf(sluice.WakeNotSupported, "this server does not support agents; create a subscription of mode wake with an endpoint, or use a webhook")
}

// takeSecrets moves the secret of the request, or a generated one, and the credentials of its
// endpoint to the fields where the server stores them.
func takeSecrets(sub *sluice.Subscription, now time.Time) error {
	value := sub.Endpoint.Secret
	sub.Endpoint.Secret = ""
	if value == "" {
		var err error
		if value, err = sluice.NewSecret(); err != nil {
			return err
		}
	}
	sub.Secrets = []sluice.Secret{{Value: value, CreatedAt: now}}
	sub.SecretHint = sluice.SecretHint(value)
	sub.Credentials = takeCredentials(&sub.Endpoint)
	return nil
}

// withSecret returns a copy of the subscription that includes the newest secret.
func withSecret(sub *sluice.Subscription) *sluice.Subscription {
	shown := *sub
	shown.Endpoint.Secret = sub.Secrets[0].Value
	return &shown
}
