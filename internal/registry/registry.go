package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Records keeps the records of one kind by key. A revision of 0 stands for "nothing is stored".
type Records[T any] interface {
	// Get returns the record and its revision. Code NotFound if there is none.
	Get(ctx context.Context, key string) (T, uint64, error)
	// Put stores the record and returns its new revision. Code Conflict unless the stored
	// revision is the given one; a deleted record counts as nothing.
	Put(ctx context.Context, key string, record T, revision uint64) (uint64, error)
	// Delete removes the record. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
}

// Subscriptions keeps the subscriptions, their secrets and their resolved starts included. What a subscription has to
// be told (Untold) is stored in one step with the rest; what is known to be told by then is left out.
type Subscriptions interface {
	Records[*sluice.Subscription]
	// List returns all of them, each with its revision, in no order.
	List(ctx context.Context) ([]*sluice.Subscription, error)
	// Retire removes the subscription, with what is to be told of it, and sets its revision. Code Conflict unless the
	// stored revision is the subscription's.
	Retire(ctx context.Context, sub *sluice.Subscription) error
}

// Logs knows the namespaces' logs.
type Logs interface {
	// LastSeq returns the last sequence of a namespace's log, 0 if it has had none. Code
	// NotFound if there is no such namespace.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	// Bounds returns the sequences of the first event that is kept and of the last one that was stored.
	Bounds(ctx context.Context, namespace string) (first, last uint64, err error)
	// EventByID returns the event with the id. Code NotFound.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// Endpoints knows where requests may go.
type Endpoints interface {
	// Check returns why nothing may be sent there: InsecureURL, BlockedAddress, InvalidRequest.
	Check(ctx context.Context, endpoint sluice.Endpoint) error
	// Handshake returns what a subscription's endpoint agrees to. Code Unprocessable if it does not agree.
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
}

// Consumers are what hands a subscription's events out. Both calls may be repeated.
type Consumers interface {
	Ensure(ctx context.Context, sub *sluice.Subscription) error
	Remove(ctx context.Context, sub *sluice.Subscription) error
}

// Quota bounds how many subscriptions there are.
type Quota interface {
	// Enter counts a subscription that is about to be stored, once. Code QuotaExceeded if its
	// namespace, or its maker, has as many as it may.
	Enter(ctx context.Context, sub *sluice.Subscription) error
	// Move enters where a stored subscription is about to send from now on. Code QuotaExceeded if its maker has too many
	// that send there.
	Move(sub *sluice.Subscription) error
	// Leave takes Enter back: the subscription was not stored.
	Leave(id string)
}

// Access says who may have what.
type Access interface {
	// MaySubscribe returns an error unless who asks (sluice.CallerFrom) may have all that the subscription
	// is about: NotFound, CapabilityRequired, Forbidden, Unavailable.
	MaySubscribe(ctx context.Context, sub *sluice.Subscription) error
	// Owns reports whether who asks, whose name a subscription's maker has, is its maker.
	Owns(ctx context.Context, sub *sluice.Subscription) bool
	// Shows reports whether who asks may see an event.
	Shows(ctx context.Context, ev *sluice.Event) bool
}

// Catalogue knows which types of events there are.
type Catalogue interface {
	// CheckTypes returns an error (UnknownEventType) if a filter names a type that there is not,
	// and the namespace wants to know its types.
	CheckTypes(namespace string, types []string) error
}

// Reservation says which subscription was made under a key, so that no second one is.
type Reservation struct {
	Subscription string `json:"subscription"`
	Config       string `json:"config"` // hash of the configuration as it was asked for
}

// Needs is what a registry works with; all of it is required but for the quota.
type Needs struct {
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
	ReplayWindow  sluice.Duration // of subscriptions that ask for none (S0-50); an hour
	Quota         Quota           // nil: no bound
	Access        Access          // nil: whoever asks may have everything

	Catalogue Catalogue     // nil: all types are known
	Labels    filter.Labels // of events' types; nil: there are none
	Filters   *filter.Pool  // evaluates filters of dry runs; nil: one without bounds

	// Payer returns which principal pays for a subscription's filter; "" is the operator. nil: all are the operator's.
	Payer func(sub *sluice.Subscription) string
}

// Registry makes, changes and ends subscriptions. Its methods may be called at once.
type Registry struct{ needs Needs }

// New returns a registry.
func New(needs Needs) *Registry {
	if needs.Filters == nil {
		needs.Filters = filter.NewPool(filter.Rates{})
	}
	return &Registry{needs: needs}
}

// Create makes a subscription and returns it with its secret and true; its consumer exists
// then. A duplicate by idempotency key (S0-26) or else by structure (S0-27) yields the
// subscription that is there, without secret, and false (S0-28). A request with an id of
// the client's choice is a Put.
//
// Codes: those of a request that is wrong or not possible; NotFound for the namespace;
// Conflict for an idempotency key that was used with another configuration; QuotaExceeded.
func (r *Registry) Create(ctx context.Context, req *Request, by string) (*sluice.Subscription, bool, error) {
	if req.ID != "" {
		return r.Put(ctx, req.ID, req, by)
	}
	sub, err := r.prepare(ctx, req, by)
	if err != nil {
		return nil, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, false, fmt.Errorf("make an id: %w", err)
	}
	sub.ID = id.String()
	found, created, err := r.reserve(ctx, sub)
	if err != nil {
		return nil, false, err
	}
	return r.ready(ctx, found, created)
}

// Put makes a subscription under the client's id, as Create does. If there is one of the same
// configuration, that is returned without secret, and false (S1-116, C09).
//
// Codes: as Create; SubscriptionDiffers if there is one of another configuration.
func (r *Registry) Put(ctx context.Context, id string, req *Request, by string) (*sluice.Subscription, bool, error) {
	if req.ID != "" && req.ID != id {
		return nil, false, sluice.Errorf(sluice.InvalidRequest, "the body's id %q is not the path's %q", req.ID, id)
	}
	if err := streams.CheckSubscriptionID(id); err != nil {
		return nil, false, err
	}
	if found, err := r.same(ctx, id, req, by); found != nil || err != nil {
		return found, false, err
	}
	sub, err := r.prepare(ctx, req, by)
	if err != nil {
		return nil, false, err
	}
	sub.ID = id
	for {
		existing, err := r.load(ctx, id)
		if err == nil {
			return r.again(ctx, req, sub, existing)
		}
		if sluice.CodeOf(err) != sluice.SubscriptionMissing {
			return nil, false, err
		}
		err = r.store(ctx, sub)
		if err == nil {
			return r.ready(ctx, sub, true)
		}
		if sluice.CodeOf(err) != sluice.Conflict { // else it was made in between
			return nil, false, err
		}
	}
}

// same returns the subscription of mode wake that has the id and is asked for again; nil if the request is to be
// looked into further. That there is another one is said before anything is of the URL, which may have become
// unreachable since (S1-108, S1-109); whoever may not subscribe learns nothing.
func (r *Registry) same(ctx context.Context, id string, req *Request, by string) (*sluice.Subscription, error) {
	want, err := req.subscription()
	if err != nil || want.Mode != sluice.Wake {
		return nil, nil //nolint:nilerr,nilnil // prepare says what is wrong
	}
	want.ID, want.Namespace = id, cmp.Or(want.Namespace, sluice.DefaultNamespace)
	complete(want)
	existing, err := r.load(ctx, id)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	if err := r.maySubscribe(ctx, want); err != nil {
		return nil, err
	}
	want.CreatedBy, want.Grant = by, sluice.CallerFrom(ctx).Grant
	found, _, err := r.again(ctx, req, want, existing)
	return found, err
}

// again returns a subscription that is there and is asked for again.
func (r *Registry) again(ctx context.Context, req *Request, want, existing *sluice.Subscription) (*sluice.Subscription, bool, error) {
	bounded := want.Grant != "" || want.CreatedBy == string(sluice.Anonymous)
	if bounded && (existing.CreatedBy != want.CreatedBy || !r.owns(ctx, existing)) { // what it is like is not for whoever asks
		return nil, false, sluice.Errorf(sluice.SubscriptionDiffers, "the id is taken; choose another one")
	}
	if err := sameAs(req, want, existing); err != nil {
		return nil, false, err
	}
	return r.ready(ctx, existing, false)
}

// sameAs returns an error (SubscriptionDiffers) unless what is wanted exists already.
func sameAs(req *Request, want, existing *sluice.Subscription) error {
	if want.Mode == sluice.Wake && req.Metadata == nil {
		want.Metadata = existing.Metadata // which can change, and S1 does not know
	}
	if req.ReplayWindow == 0 {
		want.ReplayWindow = existing.ReplayWindow // its default is a setting, which can change
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
	if wantHash == hash && enabled && sameSecret(req.Endpoint.Secret, existing) && existing.State != sluice.Cancelled {
		return nil
	}
	change := "change it with PATCH (sluice sub edit), or delete it first (sluice sub rm)"
	if existing.Mode == sluice.Wake {
		change = "it cannot be changed, so delete it first (sluice sub rm)"
	}
	return sluice.Errorf(sluice.SubscriptionDiffers, "subscription %q exists with another configuration; %s", want.ID, change).
		With("revision", existing.Revision)
}

// ready returns the subscription once its consumer exists: with the secret if it was created
// now. A creation whose consumer could not be made is completed by asking again; one whose
// consumer will never be made as things are leaves nothing behind.
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
	if err := r.maySubscribe(ctx, sub); err != nil && sluice.CodeOf(err) != sluice.Unavailable { // it was lost meanwhile, and nobody knew of the subscription
		return nil, false, errors.Join(err, unlessMissing(r.Delete(shutdown.Lasting(ctx), sub.ID, sub.CreatedBy)))
	}
	return withSecret(sub), true, nil
}

// prepare returns the subscription that a request asks for, checked and complete but for its
// id. Nothing is stored before everything was checked (S0-55).
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
	if err := r.needs.Endpoints.Check(ctx, sub.Endpoint); err != nil {
		return nil, err
	}
	last, err := r.needs.Logs.LastSeq(ctx, sub.Namespace)
	if err != nil {
		return nil, err
	}
	if sub.From, err = sluice.ParseStart(sub.Start, last+1); err != nil {
		return nil, err
	}
	now := r.needs.Now().UTC()
	if err := takeSecret(sub, now); err != nil {
		return nil, err
	}
	if err := r.shakeHands(ctx, sub); err != nil {
		return nil, err
	}
	sub.State = sluice.Active
	if !sub.Enabled {
		sub.State = sluice.Paused
	}
	sub.CreatedBy, sub.Grant, sub.CreatedAt, sub.UpdatedAt = by, sluice.CallerFrom(ctx).Grant, now, now
	return sub, nil
}

// shakeHands has the endpoint agree, if it is to: then nothing is sent before it has.
func (r *Registry) shakeHands(ctx context.Context, sub *sluice.Subscription) (err error) {
	sub.Agreed = nil
	if sub.Endpoint.Handshake {
		sub.Agreed, err = r.needs.Endpoints.Handshake(ctx, sub)
	}
	return err
}

// maySubscribe returns an error unless whoever asks may have what the subscription is about (S0-54).
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

// event returns the event with an id. Code NotFound if there is none that whoever asks may see.
func (r *Registry) event(ctx context.Context, namespace, id string) (sluice.Event, error) {
	ev, err := r.needs.Logs.EventByID(ctx, namespace, id)
	if err == nil && !r.shows(ctx, &ev) {
		return sluice.Event{}, sluice.Errorf(sluice.NotFound, "there is no such event, or you may not know of it")
	}
	return ev, err
}

// checkTypes returns an error (UnknownEventType) if the filter names a type that there is not (S4-64).
func (r *Registry) checkTypes(sub *sluice.Subscription) error {
	if r.needs.Catalogue == nil {
		return nil
	}
	return r.needs.Catalogue.CheckTypes(sub.Namespace, sub.Filter.Types)
}

// complete fills in what follows from the rest.
func complete(sub *sluice.Subscription) {
	sub.SetDefaults()
	sub.ReplayWindowS = int64(sub.ReplayWindow.Std().Seconds()) // S0-53
}

// check returns the first reason in the subscription itself why it cannot be.
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
	if sub.Endpoint.Handshake && sub.Mode == sluice.Wake {
		return sluice.Errorf(sluice.InvalidRequest, "endpoint.handshake is for the mode push").With("field", "endpoint.handshake")
	}
	_, err := filter.Compile(sub.Filter)
	return err
}

func checkMode(mode sluice.Mode) error {
	switch mode {
	case sluice.Push, sluice.Wake:
		return nil
	default:
		return sluice.Errorf(sluice.Unprocessable, "mode %q is not available yet; this server knows \"push\" and \"wake\"", mode)
	}
}

func wakeNotSupported() error {
	return sluice.Errorf(sluice.WakeNotSupported, "this server does not know agents; make a subscription of mode wake with an endpoint, or use a webhook")
}

// takeSecret moves the request's secret, which was checked, or a new one, to where the
// server keeps it.
func takeSecret(sub *sluice.Subscription, now time.Time) error {
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
	return nil
}

// withSecret returns a copy that shows the newest secret.
func withSecret(sub *sluice.Subscription) *sluice.Subscription {
	shown := *sub
	shown.Endpoint.Secret = sub.Secrets[0].Value
	return &shown
}
