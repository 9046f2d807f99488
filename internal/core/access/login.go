package access

import (
	"cmp"
	"crypto/sha256"
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Bounds of logins and of the codes that open them.
const (
	// LoginLife is how long a login is good, if its token is as long.
	LoginLife = 12 * clock.Hour
	// MaxLogins is how many one token has at a time, and how many codes.
	MaxLogins = 8
	// CodeLife is how long a code is good.
	CodeLife = clock.Minute
)

// Open decides that a login of a token begins: a token with the same role, that ends with
// it. One login too many ends the oldest.
func (ts Tokens) Open(ev event.OperatorTokenAdded, now clock.Instant) ([]event.Event, error) {
	parent, ok := ts[ev.Parent]
	switch {
	case !ok:
		return nil, &Error{Unknown: true, Reason: ts.unknown(ev.Parent)}
	case parent.Parent != "":
		return nil, &Error{Reason: "a login opens no other: log in with the token itself"}
	case parent.Expired(now):
		return nil, &Error{Reason: "token " + parent.Name + " (" + ev.Parent + ") has ended"}
	}
	ev.Name, ev.Role, ev.Expires = parent.Name, parent.Role, now.Add(LoginLife)
	ev.Actor = parent.Name + " (" + ev.Parent + ")"
	if parent.Expires != 0 {
		ev.Expires = min(ev.Expires, parent.Expires)
	}
	var out []event.Event
	if oldest, n := ts.oldest(ev.Parent); n >= MaxLogins {
		out = append(out, event.OperatorTokenRevoked{ID: oldest, Actor: ev.Actor})
	}
	return append(out, ev), nil
}

// oldest is the login of a token that began first, and how many there are.
func (ts Tokens) oldest(parent string) (id string, n int) {
	for other, t := range ts { // order-free: the least of a total order
		if t.Parent != parent {
			continue
		}
		if n++; id == "" || cmp.Or(cmp.Compare(t.CreatedAt, ts[id].CreatedAt), cmp.Compare(other, id)) < 0 {
			id = other
		}
	}
	return id, n
}

// Codes open a login each: once, and for a moment. They are kept by the hash of their secret.
type Codes map[[sha256.Size]byte]Code

// Code is one of them.
type Code struct {
	// Token is the id of the token whose login it opens.
	Token   string
	Expires clock.Instant
}

// Add keeps a code of a token. One too many ends the oldest.
func (cs Codes) Add(hash [sha256.Size]byte, token string, now clock.Instant) (expires clock.Instant) {
	var oldest [sha256.Size]byte
	n, first := 0, clock.Instant(0)
	for h, c := range cs { // order-free: of codes of one instant any may go
		if c.Expires.Reached(now) {
			delete(cs, h)
		} else if c.Token == token {
			if n++; n == 1 || c.Expires < first {
				oldest, first = h, c.Expires
			}
		}
	}
	if n >= MaxLogins {
		delete(cs, oldest)
	}
	expires = now.Add(CodeLife)
	cs[hash] = Code{Token: token, Expires: expires}
	return expires
}

// ErrCode refuses a code; whether there ever was one is not said.
var ErrCode = errors.New("the link is not good: each opens one login, within a minute; steady ui makes another")

// Redeem takes a code, and returns the id of its token.
func (cs Codes) Redeem(hash [sha256.Size]byte, now clock.Instant) (token string, err error) {
	c, ok := cs[hash]
	delete(cs, hash)
	if !ok || c.Expires.Reached(now) {
		return "", ErrCode
	}
	return c.Token, nil
}
