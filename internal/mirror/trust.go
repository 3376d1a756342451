package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxTrusted limits the keys that a namespace trusts, the revoked ones included.
const maxTrusted = 1000

// TrustedKeys returns the keys whose bundles a namespace imports, and those that were revoked. They
// are in the order in which they were added.
func (k *Keeper) TrustedKeys(ctx context.Context, namespace string) (bundle.Trust, error) {
	trust, _, err := k.deps.Trusts.Get(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("read trusted keys: %w", err)
	}
	return trust, nil
}

// Trust permits a namespace to import the bundles of a source that a key signed. Codes NotFound for
// the namespace; InvalidRequest; Conflict if the key was revoked for that source, or there are too
// many. Adding a key again returns the first entry and changes nothing.
func (k *Keeper) Trust(ctx context.Context, namespace string, key bundle.JWK, source, by string) (bundle.TrustedKey, error) {
	if _, err := k.deps.Namespaces.Incarnation(ctx, namespace); err != nil {
		return bundle.TrustedKey{}, err
	}
	trust, err := k.changeTrust(ctx, namespace, act{by: by, action: sluice.ActionTrustedKeyAdd}, key.Thumbprint(), func(t bundle.Trust) (bundle.Trust, error) {
		after, err := t.Add(key, source, k.now().UTC())
		if len(after) > max(len(t), maxTrusted) {
			return nil, sluice.Errorf(sluice.Conflict, "%s has %d keys, the limit, the revoked ones included: import from this source into another namespace", namespace, maxTrusted)
		}
		return after, err
	})
	if err == nil {
		_, err = k.deps.Namespaces.Incarnation(ctx, namespace)
		if sluice.CodeOf(err) == sluice.NotFound { // the namespace was deleted meanwhile, with the keys that it had then
			err = errors.Join(err, k.deps.Trusts.Delete(shutdown.Lasting(ctx), namespace))
		}
	}
	if err != nil {
		return bundle.TrustedKey{}, err
	}
	return trust[indexOf(trust, key.Thumbprint(), source)], nil
}

// Distrust revokes a key for all sources. Bundles that it signed are no longer imported. Code
// NotFound. Mirrors keep the entries of earlier bundles. Revoking a revoked key changes nothing.
func (k *Keeper) Distrust(ctx context.Context, namespace, kid, by string) error {
	_, err := k.changeTrust(ctx, namespace, act{by: by, action: sluice.ActionTrustedKeyRevoke}, kid, func(t bundle.Trust) (bundle.Trust, error) {
		return t.Revoke(kid, k.now().UTC())
	})
	return err
}

func indexOf(t bundle.Trust, kid, source string) int {
	return slices.IndexFunc(t, func(k bundle.TrustedKey) bool { return k.KeyID == kid && k.Source == source })
}

// changeTrust changes the keys that a namespace trusts. It repeats apply after a concurrent change.
func (k *Keeper) changeTrust(ctx context.Context, namespace string, a act, kid string, apply func(bundle.Trust) (bundle.Trust, error)) (bundle.Trust, error) {
	var intent *ledger.Intent
	for {
		was, revision, err := k.deps.Trusts.Get(ctx, namespace)
		if err != nil {
			intent.Fail(ctx, err)
			return nil, fmt.Errorf("read trusted keys: %w", err)
		}
		is, err := apply(was)
		if err == nil && slices.Equal(is, was) {
			return is, nil
		}
		if err == nil {
			intent, err = k.deps.Ledger.Intend(ctx, intent, ledger.Change{
				Actor: a.by, Namespace: namespace, Resource: kid, Action: a.action, Old: of(was, kid), New: of(is, kid),
			})
		}
		if err != nil {
			intent.Fail(ctx, err)
			return nil, err
		}
		err = k.deps.Trusts.Put(ctx, namespace, is, revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return nil, fmt.Errorf("store trusted keys: %w", err)
		}
		return is, nil
	}
}

// keysOfID is the form of a key in the ledger: an entry for each source.
type keysOfID struct {
	Keys []bundle.TrustedKey `json:"keys"`
}

func of(t bundle.Trust, kid string) keysOfID {
	keys := []bundle.TrustedKey{}
	for _, key := range t {
		if key.KeyID == kid {
			keys = append(keys, key)
		}
	}
	return keysOfID{keys}
}
