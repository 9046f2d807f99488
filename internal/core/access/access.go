// Package access is who may speak to the operator API: tokens with a role and an
// end, logins made of them, and the rules by which they come and go. It is a package of
// its own because the fold of the fleet, the server and the commands share it and nothing
// of it is about hosts or releases.
package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Admin is the role that makes and revokes tokens.
const Admin = "admin"

// Bounds of the life of a token.
const (
	DefaultLife = 365 * clock.Day
	MinLife     = clock.Minute
	MaxLife     = 10 * 365 * clock.Day
)

// UseInterval is how often at most the use of one token is recorded.
const UseInterval = clock.Day

// Token is an operator's token; of its secret only the hash is known.
type Token struct {
	Name      string        `json:"name"`
	Role      string        `json:"role"`
	Hash      []byte        `json:"hash"`
	CreatedAt clock.Instant `json:"createdAt,omitempty"`
	// Expires is zero for a token without an end.
	Expires clock.Instant `json:"expires,omitempty"`
	// UsedAt is the last use that was recorded.
	UsedAt clock.Instant `json:"usedAt,omitempty"`
	// Parent is the id of the token that a login was made of; empty for a token.
	Parent string `json:"parent,omitempty"`
}

// Expired reports whether the token's end has come.
func (t Token) Expired(now clock.Instant) bool { return t.Expires.Reached(now) }

// Tokens are all tokens that were not revoked, by id.
type Tokens map[string]Token

// Fold applies an event at an instant of the server.
func (ts Tokens) Fold(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.OperatorTokenAdded:
		ts[ev.ID] = Token{Name: ev.Name, Role: ev.Role, Hash: ev.Hash, CreatedAt: at, Expires: ev.Expires, Parent: ev.Parent}
	case event.OperatorTokenUsed:
		if t, ok := ts[ev.ID]; ok {
			t.UsedAt = at
			ts[ev.ID] = t
		}
	case event.OperatorTokenRevoked:
		delete(ts, ev.ID)
		for id, t := range ts { // order-free: each by itself
			if t.Parent == ev.ID {
				delete(ts, id)
			}
		}
	}
}

// Error says why a request about tokens is refused.
type Error struct {
	Reason string
	// Unknown says that there is no such token.
	Unknown bool
}

func (e *Error) Error() string { return e.Reason }

// Add decides that a token comes into being. Life is how long it is good.
func (ts Tokens) Add(ev event.OperatorTokenAdded, life clock.Duration, now clock.Instant) (event.OperatorTokenAdded, error) {
	if life < MinLife || life > MaxLife {
		return ev, &Error{Reason: fmt.Sprintf("a token lives from %s to %s, not %s", MinLife, MaxLife, life)}
	}
	if _, taken := ts[ev.ID]; taken {
		return ev, &Error{Reason: "there is a token " + ev.ID + " already"}
	}
	ev.Expires = now.Add(life)
	return ev, nil
}

// Revoke decides that a token goes. The last admin's goes by force alone: nobody
// could make another.
func (ts Tokens) Revoke(id string, force bool, actor string, now clock.Instant) (event.OperatorTokenRevoked, error) {
	t, ok := ts[id]
	if !ok {
		return event.OperatorTokenRevoked{}, &Error{Unknown: true, Reason: ts.unknown(id)}
	}
	last := t.lasting(Admin, now) && ts.admins(id, now) == 0
	if last && !force {
		return event.OperatorTokenRevoked{}, &Error{Reason: fmt.Sprintf("%s (%s) is the last admin: without it nobody can make or revoke operator tokens. "+
			"Make another first: steady operator create NAME --role admin; or revoke it with --force, after which only steady server recover-admin helps, on the server's machine", t.Name, id)}
	}
	return event.OperatorTokenRevoked{ID: id, Actor: actor, Forced: last}, nil
}

// unknown says that no token has an ID; a name is no ID, for several may have it.
func (ts Tokens) unknown(id string) string {
	var named []string
	for other, t := range ts { // order-free: sorted below
		if t.Name == id && t.Parent == "" {
			named = append(named, other)
		}
	}
	slices.Sort(named)
	if len(named) > 0 {
		return fmt.Sprintf("%q is the name of a token, not its ID; the ID of each of that name: %s", id, strings.Join(named, ", "))
	}
	return fmt.Sprintf("there is no operator token %q; steady operator list shows them", id)
}

// lasting reports whether a token is good and of a role; a login is none that lasts.
func (t Token) lasting(role string, now clock.Instant) bool {
	return t.Role == role && t.Parent == "" && !t.Expired(now)
}

// admins counts the tokens of admins that are good, one aside.
func (ts Tokens) admins(but string, now clock.Instant) (n int) {
	for id, t := range ts { // order-free: it only counts
		if id != but && t.lasting(Admin, now) {
			n++
		}
	}
	return n
}

// Used decides whether the use of a token is recorded. That a login is used is known.
func (ts Tokens) Used(id string, now clock.Instant) (event.OperatorTokenUsed, bool) {
	t, ok := ts[id]
	return event.OperatorTokenUsed{ID: id}, ok && t.Parent == "" && (t.UsedAt == 0 || now.Sub(t.UsedAt) >= UseInterval)
}
