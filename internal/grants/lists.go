package grants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const maxEntries = 100 // of a principal in a namespace

// PutACL sets a principal's access to a namespace. The first entry puts the namespace's access list
// in force, for good. Codes InvalidRequest; Conflict if it would remove the last admin. It replaces
// all entries of the principal; empty patterns become /**. An equal list is no change, and is waited
// for, too. The access list and its head are separate records, written one after the other: after a
// failure in between, repeat the call. The order (demote, entry, promote) keeps the head from naming
// a principal that is no admin.
func (a *Authority) PutACL(ctx context.Context, by sluice.Caller, acl sluice.ACL) (sluice.ACL, error) {
	if err := checkACL(&acl); err != nil {
		return acl, err
	}
	if !isAdmin(acl.Entries) {
		if err := a.demote(ctx, acl.Namespace, acl.Principal); err != nil {
			return acl, err
		}
	}
	err := a.putACL(ctx, changeOf(by, sluice.ActionACLPut, acl.Namespace, string(acl.Principal)), acl)
	if err == nil {
		err = a.close(ctx, acl.Namespace)
	}
	if err == nil && isAdmin(acl.Entries) {
		err = a.promote(ctx, acl.Namespace, acl.Principal)
	}
	return acl, err
}

// DeleteACL removes a principal's access to a namespace. Codes NotFound; Conflict for the last
// admin. The record remains, with no entries. It needs no ledger, because it only takes rights. A
// list without entries stays in force. NotFound comes after all replicas have confirmed an earlier
// deletion; code Unavailable if they have not.
func (a *Authority) DeleteACL(ctx context.Context, by sluice.Caller, namespace string, p sluice.Principal) error {
	if _, err := a.ACL(namespace, p); err != nil {
		return cmp.Or(a.confirm(ctx, streams.ACLKey(namespace, p)), err)
	}
	if err := a.demote(ctx, namespace, p); err != nil {
		return err
	}
	return a.putACL(ctx, changeOf(by, sluice.ActionACLDelete, namespace, string(p)), sluice.ACL{Namespace: namespace, Principal: p})
}

func (a *Authority) putACL(ctx context.Context, change ledger.Change, acl sluice.ACL) error {
	_, _, err := a.store(ctx, edit{
		key: streams.ACLKey(acl.Namespace, acl.Principal), change: change, protects: change.Action == sluice.ActionACLDelete,
		show: func(r authz.Record) any {
			if r.ACL == nil || len(r.ACL.Entries) == 0 {
				return nil
			}
			return r.ACL
		},
		apply: func(r authz.Record) (authz.Record, bool, error) {
			return authz.Record{ACL: &acl}, r.ACL == nil || !slices.Equal(r.ACL.Entries, acl.Entries), nil
		},
	})
	return err
}

// ACL returns a principal's access to a namespace. Code NotFound if there is no entry. It answers
// from the index.
func (a *Authority) ACL(namespace string, p sluice.Principal) (sluice.ACL, error) {
	for _, acl := range a.ACLs(namespace) {
		if acl.Principal == p {
			return acl, nil
		}
	}
	return sluice.ACL{}, sluice.Errorf(sluice.NotFound, "%[2]s has no entry in the access list of %[1]s", namespace, p)
}

// ACLs returns a namespace's access list, ordered by principal. Never nil. It answers from the
// index, and looks at the records of all namespaces.
func (a *Authority) ACLs(namespace string) []sluice.ACL {
	all := []sluice.ACL{}
	for _, r := range a.needs.Index.Records(func(r authz.Record) bool {
		return r.ACL != nil && r.ACL.Namespace == namespace && len(r.ACL.Entries) > 0
	}) {
		all = append(all, *r.ACL)
	}
	slices.SortFunc(all, func(a, b sluice.ACL) int { return strings.Compare(string(a.Principal), string(b.Principal)) })
	return all
}

func checkACL(acl *sluice.ACL) error {
	if _, err := sluice.ParsePrincipal(string(acl.Principal)); err != nil {
		return err
	}
	if len(acl.Entries) == 0 || len(acl.Entries) > maxEntries {
		return sluice.Errorf(sluice.InvalidRequest, "tier is missing: write {\"tier\":\"read\",\"pattern\":\"/**\"}, or up to %d such entries", maxEntries).With("field", "tier")
	}
	for i := range acl.Entries {
		e := &acl.Entries[i]
		if e.Pattern == "" {
			e.Pattern = "/**"
		}
		pattern, err := sluice.ParsePattern(string(e.Pattern))
		if err != nil {
			return err
		}
		if e.Pattern = pattern; e.Tier == sluice.TierNone {
			return sluice.Errorf(sluice.InvalidRequest, "tier is missing: use existence, read, write or admin").With("field", "tier")
		}
	}
	return nil
}

// isAdmin reports whether the entries make an admin of the namespace.
func isAdmin(entries []sluice.Access) bool {
	return slices.ContainsFunc(entries, func(e sluice.Access) bool { return e.Tier == sluice.TierAdmin && e.Everything() })
}

// close puts a namespace's list in force.
func (a *Authority) close(ctx context.Context, namespace string) error {
	return a.head(ctx, namespace, func(h *authz.Admins) (bool, error) {
		changed := !h.Closed
		h.Closed = true
		return changed, nil
	})
}

// promote notes that a principal is an admin, after it has become one.
func (a *Authority) promote(ctx context.Context, namespace string, p sluice.Principal) error {
	return a.head(ctx, namespace, func(h *authz.Admins) (bool, error) {
		if slices.Contains(h.Principals, p) {
			return false, nil
		}
		h.Principals = append(slices.Clone(h.Principals), p)
		return true, nil
	})
}

// demote notes that a principal is no longer an admin, before it stops being one. Code Conflict if
// it is the last admin.
func (a *Authority) demote(ctx context.Context, namespace string, p sluice.Principal) error {
	return a.head(ctx, namespace, func(h *authz.Admins) (bool, error) {
		at := slices.Index(h.Principals, p)
		if at < 0 {
			return false, nil
		}
		if len(h.Principals) == 1 {
			return false, sluice.Errorf(sluice.Conflict, "%s is the last admin of %s: add another one first", p, namespace)
		}
		h.Principals = slices.Delete(slices.Clone(h.Principals), at, at+1)
		return true, nil
	})
}

// head changes the head of a namespace's list. The head's key is that of an entry without a
// principal. It has the principals that are admins of everything in the namespace, in the order in
// which they became it.
func (a *Authority) head(ctx context.Context, namespace string, change func(*authz.Admins) (bool, error)) error {
	return a.write(ctx, streams.ACLKey(namespace, ""), func(r authz.Record) (authz.Record, bool, error) {
		h := authz.Admins{Namespace: namespace}
		if r.Admins != nil {
			h = *r.Admins
		}
		changed, err := change(&h)
		return authz.Record{Admins: &h}, changed, err
	})
}

// write is store for a change that another ledger entry covers. It always waits for all replicas.
func (a *Authority) write(ctx context.Context, key string, apply func(authz.Record) (authz.Record, bool, error)) error {
	for {
		before, revision, err := a.needs.Records.Get(ctx, key)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return fmt.Errorf("read: %w", err)
		}
		after, changed, err := apply(before)
		if err != nil {
			return err
		}
		if !changed {
			return a.await(ctx, revision, false)
		}
		stored, err := a.needs.Records.Put(ctx, key, after, revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		return a.await(ctx, stored, false)
	}
}
