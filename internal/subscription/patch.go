package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Patch applies a JSON merge patch to the representation of a subscription, and returns the result
// without its secret. A patch can change the endpoint, the filter, the policy, the replay window,
// enabled, the description and the metadata. It cannot change the identity (id, namespace, mode,
// pattern, target, start, idempotency key) and the fields that the server sets (C08), but may
// repeat them. In mode wake, only enabled and the metadata can change (S1-04). A revision other
// than 0 must be the stored one. When Patch returns, this replica acts on the change, as for Pause.
//
// Codes: SubscriptionMissing; RevisionMismatch; Conflict if the subscription is cancelled, or a
// field cannot change in its mode; InvalidRequest for an immutable field, including the secret;
// those of an invalid request.
func (r *Registry) Patch(ctx context.Context, id string, patch []byte, revision uint64, by string) (*sluice.Subscription, error) {
	var before *sluice.Subscription
	a := act{by: by, action: sluice.ActionSubscriptionUpdate, event: sluice.TypeSubscriptionUpdated}
	after, err := r.change(ctx, id, a, func(sub *sluice.Subscription) (bool, error) {
		if revision != 0 && revision != sub.Revision {
			return false, sluice.Errorf(sluice.RevisionMismatch, "subscription %q is at revision %d, not %d; read it again", id, sub.Revision, revision).
				With("revision", sub.Revision)
		}
		if err := alive(sub); err != nil {
			return false, err
		}
		old := *sub
		before = &old
		if err := applyPatch(sub, patch); err != nil {
			return false, err
		}
		if err := keepCredentials(&old, sub, r.needs.Now()); err != nil {
			return false, err
		}
		if reflect.DeepEqual(before, sub) {
			return false, nil
		}
		rebind(model.CallerFrom(ctx), before, sub)
		return true, r.recheck(ctx, before, sub)
	})
	if err != nil {
		return nil, err
	}
	if err := r.needs.Consumers.Ensure(ctx, after); err != nil {
		return nil, fmt.Errorf("ensure consumer of %s: %w", id, err)
	}
	if err := r.move(ctx, before, after); err != nil {
		return after, err
	}
	r.awaitApplied(ctx, after)
	return after, nil
}

// rebind binds a subscription to the caller's grant if the caller changes the endpoint or the
// filter. So an admin that changes another principal's subscription gets no more access than its
// own grant permits, and for no longer.
func rebind(by sluice.Caller, before, after *sluice.Subscription) {
	if by.Grant != "" && (!reflect.DeepEqual(before.Endpoint, after.Endpoint) || !reflect.DeepEqual(before.Filter, after.Filter)) {
		after.Grant = by.Binding()
	}
}

// recheck returns an error if a changed subscription is invalid. It does not resolve an unchanged
// endpoint again, because a temporary outage is no reason to refuse, for example, a new
// description.
func (r *Registry) recheck(ctx context.Context, before, after *sluice.Subscription) error {
	if err := check(after); err != nil {
		return err
	}
	if len(after.Secrets) > 0 { // a damaged record may have none; a rotation creates one
		if err := after.Policy.Signature.Scheme.CheckSecret(after.Secrets[0].Value); err != nil {
			return err // remedy: rotate first, because a new secret suits every scheme
		}
	}
	if before.Policy.Ordering != after.Policy.Ordering {
		return sluice.Errorf(sluice.InvalidRequest, "policy.ordering cannot change, because lane keys depend on it; create a new subscription").With("field", "policy.ordering")
	}
	// Types that do not change may have left the catalogue.
	if !slices.Equal(before.Filter.Types, after.Filter.Types) {
		if err := r.checkTypes(after); err != nil {
			return err
		}
	}
	if reflect.DeepEqual(before.Endpoint, after.Endpoint) {
		return nil
	}
	if err := r.needs.Endpoints.Check(ctx, after.Endpoint); err != nil {
		return ofURL(err)
	}
	if before.Endpoint.URL != after.Endpoint.URL || before.Endpoint.Handshake != after.Endpoint.Handshake {
		if err := r.shakeHands(ctx, after); err != nil {
			return err
		}
	}
	if r.needs.Quota == nil {
		return nil
	}
	return r.needs.Quota.Move(after)
}

// move replaces the structure reservation of the old configuration by that of the new one. It also
// makes one that is missing, because an earlier change was interrupted.
func (r *Registry) move(ctx context.Context, before, after *sluice.Subscription) error {
	was, err := structureKey(before)
	if err != nil {
		return err
	}
	is, err := structureKey(after)
	if err != nil {
		return err
	}
	if was == is {
		return r.hold(ctx, after)
	}
	held, revision, err := r.reservation(ctx, was)
	if err != nil {
		return err
	}
	if held.Subscription == after.ID {
		if err := r.free(ctx, was, revision); err != nil {
			return err
		}
	}
	return r.hold(ctx, after)
}

// mutable returns the fields that a patch may change, and last_event_at, which responses show but
// the record does not have.
func mutable() []string {
	return []string{"filter", "endpoint", "policy", "replay_window", "enabled", "description", "metadata", "last_event_at"}
}

// mutableOfWake is mutable for subscriptions of mode wake.
func mutableOfWake() []string { return []string{"enabled", "metadata", "last_event_at"} }

// fixed turns the error for an immutable field into that for a field that is immutable in mode
// wake.
func fixed(err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return err
	}
	return &sluice.Error{Code: sluice.Conflict, Message: e.Message + " in mode wake: delete the subscription and create a new one", Details: e.Details}
}

// patched is a patched representation. The filter is parsed separately, because its errors have
// another code.
type patched struct {
	sluice.Subscription

	Filter json.RawMessage `json:"filter"`
}

// applyPatch changes sub as the patch says. Codes InvalidRequest, UnknownFilter.
func applyPatch(sub *sluice.Subscription, patch []byte) error {
	var object map[string]json.RawMessage
	if _ = json.Unmarshal(patch, &object); object == nil {
		return sluice.Errorf(sluice.InvalidRequest, "the body is not a JSON object; send a merge patch such as {\"description\":\"…\"}")
	}
	old, err := json.Marshal(sub)
	if err != nil {
		return fmt.Errorf("encode subscription: %w", err)
	}
	merged, err := jsonpatch.MergePatch(old, patch)
	if err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "the body is not a JSON merge patch")
	}
	next := patched{Subscription: sluice.Subscription{Enabled: true}}
	if err := strictjson.Decode(merged, &next); err != nil {
		return err
	}
	next.Subscription.Filter, err = strictjson.DecodeFilter(next.Filter)
	if err != nil {
		return err
	}
	if next.Endpoint.Secret != "" {
		return sluice.Errorf(sluice.InvalidRequest, "the secret cannot be patched; rotate it: POST …/secret/rotate").With("field", "endpoint.secret")
	}
	is, err := json.Marshal(next.Subscription) // drops fields that the patch set to empty values
	if err != nil {
		return fmt.Errorf("encode subscription: %w", err)
	}
	if err := unchangedBut(mutable(), old, is); err != nil {
		return err
	}
	if (sub.Module != "" || len(next.Endpoint.Exec) > 0) && !reflect.DeepEqual(sub.Endpoint, next.Endpoint) {
		return notByHand("endpoint")
	}
	if sub.Mode == sluice.Wake {
		if err := unchangedBut(mutableOfWake(), old, is); err != nil {
			return fixed(err)
		}
	}
	take(sub, &next.Subscription)
	return nil
}

// take copies the mutable fields from next to sub, and sets defaults.
func take(sub, next *sluice.Subscription) {
	sub.Filter, sub.Endpoint, sub.Policy = next.Filter, next.Endpoint, next.Policy
	sub.ReplayWindow = next.ReplayWindow
	sub.Description, sub.Metadata = next.Description, next.Metadata
	switch {
	case next.Enabled == sub.Enabled: // the state is unchanged, also disabled or suspended
	case next.Enabled:
		sub.State, sub.Reason = sluice.Active, ""
	default:
		sub.State = sluice.Paused
	}
	sub.Enabled = next.Enabled
	complete(sub)
}

// unchangedBut returns an error (InvalidRequest) that names the first field that differs between
// two JSON objects. It ignores the fields in except.
func unchangedBut(except []string, old, merged []byte) error {
	var was, is map[string]any
	if err := json.Unmarshal(old, &was); err != nil {
		return fmt.Errorf("decode subscription: %w", err)
	}
	if err := json.Unmarshal(merged, &is); err != nil {
		return fmt.Errorf("decode patched subscription: %w", err)
	}
	fields := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	slices.Sort(fields)
	for _, field := range fields {
		if !slices.Contains(except, field) && !reflect.DeepEqual(was[field], is[field]) {
			return sluice.Errorf(sluice.InvalidRequest, "field %q cannot be changed", field).With("field", field)
		}
	}
	return nil
}
