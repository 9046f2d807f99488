package uplink

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Identity is who a host is, as it was told at enrolment.
type Identity struct {
	Fleet       string `json:"fleet"`
	Host        string `json:"host"`
	Incarnation uint64 `json:"incarnation"`
	Server      string `json:"server"`
	ServerCA    []byte `json:"serverCA"` // PEM
	// Key names the file of the client key that Chain (PEM) is for.
	Key   string `json:"key"`
	Chain []byte `json:"chain"`
	// Renewals counts keys, so that each has a file of its own.
	Renewals int `json:"renewals"`
	// Before is the name under which what runs on the engine was made, of a host that was
	// renamed since; empty for one that was not.
	Before string `json:"before,omitempty"`
}

// EngineName is the name that the host's containers, networks and volumes are labelled and
// called with. A renamed host goes on with its first one: what runs is its own, data included.
func (id *Identity) EngineName() string { return cmp.Or(id.Before, id.Host) }

// Keys is the path of a key's file by its name.
type Keys func(name string) string

// Dialer opens a network connection; see net.Dialer.DialContext.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// EnrolRequest is what a host has to begin with.
type EnrolRequest struct {
	Token  identity.TokenText
	Server string // base URL
	Keys   Keys
	Wall   func() clock.Instant
	Dial   Dialer // nil for the network's own
	Log    *slog.Logger
}

// ErrRefused says that an enrolment did not happen, and that trying it again with the same token and keys would not
// help. Where it was merely given up, the server may know the keys already.
var ErrRefused = errors.New("enrolment refused")

// refusal is an error that is ErrRefused as well.
type refusal struct{ error }

func (r refusal) Unwrap() error        { return r.error }
func (r refusal) Is(target error) bool { return target == ErrRefused }

// Enrol trades the token for an identity and the state of trust that begins with
// it. It tries again until the server answers or ctx ends, and may be repeated: keys
// are made once. What ends it the server is told as well.
func Enrol(ctx context.Context, r EnrolRequest) (Identity, trust.State, error) {
	e := &attempt{EnrolRequest: r}
	tlsConfig, err := TLSConfig(r.Server, r.Token.ServerCA, nil, func() time.Time { return time.UnixMilli(int64(r.Wall())) })
	if err != nil {
		return Identity{}, trust.State{}, err
	}
	if e.client, err = NewClient(ClientOptions{Servers: []string{r.Server}, TLS: tlsConfig, Dial: r.Dial}); err != nil {
		return Identity{}, trust.State{}, err
	}
	defer e.client.Close()
	token, ts, err := r.Token.Begin(r.Wall())
	if err != nil {
		e.report(ctx, "TrustError", err)
		return Identity{}, trust.State{}, refusal{err}
	}
	id, err := e.run(ctx, token)
	return id, ts, err
}

// attempt is one enrolment under way.
type attempt struct {
	EnrolRequest
	client *Client
}

const firstKey = "client-0.key"

func (e *attempt) run(ctx context.Context, token identity.Token) (Identity, error) {
	eventKey, err := MakeEventKey(e.Keys)
	if err != nil {
		return Identity{}, err
	}
	key, err := identity.KeyFile(e.Keys(firstKey))
	if err != nil {
		return Identity{}, err
	}
	csr, err := identity.NewCSR(key)
	if err != nil {
		return Identity{}, err
	}
	pub, ok := eventKey.Public().(ed25519.PublicKey)
	if !ok {
		return Identity{}, fmt.Errorf("the event key is a %T, not Ed25519", eventKey.Public())
	}
	answer, err := e.ask(ctx, wire.Enrol{Token: e.Token.Envelope, CSR: csr, EventKey: pub})
	if err != nil {
		return Identity{}, err
	}
	id := Identity{
		Fleet: token.Fleet, Host: token.Host, Incarnation: answer.Incarnation,
		Server: e.Server, ServerCA: e.Token.ServerCA, Key: firstKey, Chain: answer.Chain,
	}
	if _, err := pairFor(&id, key); err != nil {
		e.report(ctx, "EnrolmentFailed", err)
		return Identity{}, err
	}
	return id, nil
}

// ask sends the request until the server answers it.
func (e *attempt) ask(ctx context.Context, m wire.Enrol) (wire.Certificate, error) {
	wait := Backoff{Base: 250 * clock.Millisecond}
	for {
		answer, err := e.client.Enrol(ctx, m)
		status := StatusOf(err)
		switch {
		case err == nil:
			return answer, nil
		case status >= 400 && status < 500 && status != 408 && status != 429:
			err = fmt.Errorf("enrolment refused: %w", err)
			e.report(ctx, "EnrolmentFailed", err)
			return wire.Certificate{}, refusal{err}
		}
		e.Log.Warn("enrolment is tried again", "server", e.Server, "error", err)
		if wait.Wait(ctx) != nil {
			return wire.Certificate{}, fmt.Errorf("enrolment was given up: %w", err)
		}
	}
}

// report tells the server why it did not work, once; the error itself goes to
// whoever enrols the host.
func (e *attempt) report(ctx context.Context, kind string, err error) {
	if rerr := e.client.BootstrapReport(ctx, wire.BootstrapReport{Token: e.Token.Envelope, Kind: kind, Detail: err.Error()}); rerr != nil {
		e.Log.Warn("the failure could not be reported", "error", rerr)
	}
}
