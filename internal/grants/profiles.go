package grants

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// PutProfile sets a principal's clearance. Code InvalidRequest. It replaces the profile, and waits
// for all replicas even if nothing changed. An empty profile deletes the clearance.
func (a *Authority) PutProfile(ctx context.Context, by sluice.Caller, p sluice.Profile) (sluice.Profile, error) {
	if _, err := sluice.ParsePrincipal(string(p.Principal)); err != nil {
		return p, err
	}
	if err := p.Clearance.Check(); err != nil {
		return p, err
	}
	if len(p.Description) > 1024 {
		return p, sluice.Errorf(sluice.InvalidRequest, "description: use up to 1024 bytes").With("field", "description")
	}
	return p, a.putProfile(ctx, by, sluice.ActionPrincipalPut, p)
}

// DeleteProfile removes a principal's clearance, which is then PUBLIC. The record remains, empty.
// Code NotFound if there is none, after all replicas have confirmed an earlier deletion; code
// Unavailable if they have not.
func (a *Authority) DeleteProfile(ctx context.Context, by sluice.Caller, p sluice.Principal) error {
	if _, err := a.Profile(p); err != nil {
		return cmp.Or(a.confirm(ctx, streams.ProfileKey(p)), err)
	}
	return a.putProfile(ctx, by, sluice.ActionPrincipalDelete, sluice.Profile{Principal: p})
}

func (a *Authority) putProfile(ctx context.Context, by sluice.Caller, action string, p sluice.Profile) error {
	_, _, err := a.store(ctx, edit{
		key: streams.ProfileKey(p.Principal), change: changeOf(by, action, "", string(p.Principal)),
		show: func(r authz.Record) any {
			if r.Profile == nil || blank(r.Profile) {
				return nil
			}
			return r.Profile
		},
		apply: func(r authz.Record) (authz.Record, bool, error) { return authz.Record{Profile: &p}, true, nil },
	})
	return err
}

// blank reports whether a profile is empty, which means that it was deleted.
func blank(p *sluice.Profile) bool { return p.Clearance.Public() && p.Description == "" }

// Profile returns a principal's profile. Code NotFound if there is none.
func (a *Authority) Profile(p sluice.Principal) (sluice.Profile, error) {
	all := a.Profiles()
	i := slices.IndexFunc(all, func(q sluice.Profile) bool { return q.Principal == p })
	if i < 0 {
		return sluice.Profile{}, sluice.Errorf(sluice.NotFound, "%s has no clearance and is PUBLIC", p)
	}
	return all[i], nil
}

// Profiles returns the principals' profiles, ordered by name. Never nil. It answers from the index.
func (a *Authority) Profiles() []sluice.Profile {
	all := []sluice.Profile{}
	for _, r := range a.needs.Index.Records(func(r authz.Record) bool { return r.Profile != nil && !blank(r.Profile) }) {
		all = append(all, *r.Profile)
	}
	slices.SortFunc(all, func(a, b sluice.Profile) int { return strings.Compare(string(a.Principal), string(b.Principal)) })
	return all
}

// PutLabel labels a namespace. Code InvalidRequest. An equal label is no change, and is waited for,
// too.
func (a *Authority) PutLabel(ctx context.Context, by sluice.Caller, namespace string, l sluice.Label) error {
	if err := l.Check(); err != nil {
		return err
	}
	_, _, err := a.store(ctx, edit{
		key: streams.LabelKey(namespace), change: changeOf(by, sluice.ActionLabelPut, namespace, namespace),
		show: func(r authz.Record) any {
			if r.Label == nil {
				return nil
			}
			return r.Label.Label
		},
		apply: func(r authz.Record) (authz.Record, bool, error) {
			was := sluice.Label{}
			if r.Label != nil {
				was = r.Label.Label
			}
			changed := was.Level != l.Level || !slices.Equal(was.Compartments, l.Compartments)
			return authz.Record{Label: &authz.Label{Namespace: namespace, Label: l}}, changed, nil
		},
	})
	return err
}

// Label returns a namespace's label. The zero label, which is PUBLIC, if none was set.
func (a *Authority) Label(namespace string) sluice.Label { return a.needs.Index.Label(namespace) }

// Erase marks events on a path up to a sequence as erased. When it returns without an
// error, no replica sends any of them. The sequence of a tombstone never decreases. It returns the
// tombstone in force, which is an earlier one if that goes as far. It needs no ledger (see edit).
// The events themselves remain in the log.
func (a *Authority) Erase(ctx context.Context, by sluice.Caller, namespace string, path sluice.Path, upTo uint64) (sluice.Tombstone, error) {
	t := sluice.Tombstone{Namespace: namespace, Path: path, UpTo: upTo, By: by.Principal, At: a.needs.Now().UTC()}
	r, _, err := a.store(ctx, edit{
		key: streams.TombstoneKey(namespace, path), change: changeOf(by, sluice.ActionTombstonePut, namespace, string(path)), protects: true,
		show: func(r authz.Record) any {
			if r.Tombstone == nil {
				return nil
			}
			return r.Tombstone
		},
		apply: func(r authz.Record) (authz.Record, bool, error) {
			return authz.Record{Tombstone: &t}, r.Tombstone == nil || r.Tombstone.UpTo < upTo, nil
		},
	})
	if err != nil {
		return t, err
	}
	return *r.Tombstone, nil
}

// EndGrants revokes the grants of a namespace that is being deleted, so that they give no rights in
// a new one of its name. It revokes one after the other, waits for all replicas each time, and
// stops at the first error: repeat it. It waits for revoked grants again, so that a repeated call
// relies on nothing unconfirmed. Grants for all namespaces remain.
func (a *Authority) EndGrants(ctx context.Context, by sluice.Caller, namespace string) error {
	for _, r := range a.needs.Index.Records(func(r authz.Record) bool { return r.Grant != nil && r.Grant.Object.Namespace == namespace }) {
		if _, err := a.revoke(ctx, by, r.Grant.ID, namespace); err != nil {
			return err
		}
	}
	return nil
}

// ForgetNamespace empties the access records of a deleted namespace. Do not call it earlier: the
// access list and the label of the namespace also limit grants for all namespaces. It writes
// nothing to the ledger, which has the deletion of the namespace. It is idempotent, and stops at
// the first error. Tombstones are emptied, too, because sequences begin again in a new namespace of
// the name.
func (a *Authority) ForgetNamespace(ctx context.Context, by sluice.Caller, namespace string) error {
	for key := range a.needs.Index.Records(func(r authz.Record) bool { return r.Grant == nil && about(r, namespace) }) {
		err := a.write(ctx, key, func(r authz.Record) (authz.Record, bool, error) { return emptied(r, by, namespace), true, nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// about reports whether a record other than a grant is about a namespace and not empty.
func about(r authz.Record, namespace string) bool {
	switch {
	case r.ACL != nil:
		return r.ACL.Namespace == namespace && len(r.ACL.Entries) > 0
	case r.Admins != nil:
		return r.Admins.Namespace == namespace && r.Admins.Closed
	case r.Label != nil:
		return r.Label.Namespace == namespace && !r.Label.Label.Public()
	case r.Tombstone != nil:
		return r.Tombstone.Namespace == namespace && r.Tombstone.UpTo > 0
	}
	return false
}

// emptied returns an empty record in place of r.
func emptied(r authz.Record, by sluice.Caller, namespace string) authz.Record {
	switch {
	case r.ACL != nil:
		return authz.Record{ACL: &sluice.ACL{Namespace: namespace, Principal: r.ACL.Principal}}
	case r.Admins != nil:
		return authz.Record{Admins: &authz.Admins{Namespace: namespace}}
	case r.Label != nil:
		return authz.Record{Label: &authz.Label{Namespace: namespace}}
	}
	if r.Tombstone == nil {
		return r // it is unreadable
	}
	return authz.Record{Tombstone: &sluice.Tombstone{Namespace: namespace, Path: r.Tombstone.Path, By: by.Principal}}
}
