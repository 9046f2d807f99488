package control

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// eventKeyFile is the name of the file in the data folder from which tokens of sessions are made.
const eventKeyFile = "session-events.key"

// eventTokenPrefix makes a session's token easy to recognise where it leaked.
const eventTokenPrefix = "steadyev_"

// What becomes of an event for a session.
const (
	EventAccepted    = "accepted"
	EventNoToken     = "token"
	EventMalformed   = "malformed"
	EventTooLarge    = "too-large"
	EventUnknown     = "unknown"
	EventOver        = "over"
	EventTooMany     = "too-many"
	EventUnavailable = "unavailable"
)

// EventOutcomes lists them.
var EventOutcomes = []string{EventAccepted, EventNoToken, EventMalformed, EventTooLarge, EventUnknown, EventOver, EventTooMany, EventUnavailable}

// errEventToken is the same whatever is wrong, so that nobody learns which sessions there are.
var errEventToken = wire.Refuse(wire.ErrForbidden, "the token of this session is needed, Authorization: Bearer TOKEN; steady session token NAME prints it")

// EventToken is what those who send events to a session prove themselves with. One of that name
// that is created later has another.
func (c *Control) EventToken(ctx context.Context, name string) (string, error) {
	st, err := c.sessions.Show(ctx, name)
	if err != nil {
		return "", err
	}
	key, err := c.eventKey()
	if err != nil {
		return "", err
	}
	return eventToken(key, name, st.Created), nil
}

// eventToken is the instant of creation and its HMAC with the name: that a token is good, but for a session
// that is gone, is decided without looking at what there is.
func eventToken(key []byte, name string, created time.Time) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(created.UnixNano()))
	mac := hmac.New(sha256.New, key)
	mac.Write(at)
	mac.Write([]byte(name))
	return eventTokenPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(at))
}

// CheckEventToken refuses a token that is not that of a session.
func (c *Control) CheckEventToken(ctx context.Context, name, token string) error {
	key, err := c.eventKey()
	if err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, eventTokenPrefix))
	if err != nil || len(raw) != 8+sha256.Size {
		return errEventToken
	}
	created := time.Unix(0, int64(binary.BigEndian.Uint64(raw)))
	if !hmac.Equal([]byte(token), []byte(eventToken(key, name, created))) {
		return errEventToken
	}
	switch st, err := c.sessions.Show(ctx, name); {
	case errors.Is(err, wire.ErrNotFound), err == nil && !st.Created.Equal(created):
		return errEventToken
	default:
		return err
	}
}

// ReceiveEvent takes an event for a session, or for a phase PART/PHASE of it.
func (c *Control) ReceiveEvent(ctx context.Context, name, phase string, e engine.Event) error {
	return c.sessions.Receive(ctx, name, phase, e)
}

// CountEvent counts what became of an event for a session, and logs some of those that were refused.
func (c *Control) CountEvent(name, outcome string, err error) {
	c.metrics.sessionEvents.WithLabelValues(outcome).Inc()
	if err == nil {
		return
	}
	c.sessionEvents.Lock()
	noted, left := c.sessionEvents.Note(c.now())
	c.sessionEvents.Unlock()
	if noted {
		c.cfg.Log.Warn("an event for a session was refused", "session", fmt.Sprintf("%.63s", name), "reason", outcome, "err", err, "unlogged", left)
	}
}

// eventKey reads the key, and makes it when there is none.
func (c *Control) eventKey() ([]byte, error) {
	c.sessionEvents.Lock()
	defer c.sessionEvents.Unlock()
	if c.sessionEvents.key != nil {
		return c.sessionEvents.key, nil
	}
	path := filepath.Join(c.cfg.DataDir, eventKeyFile)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
		err = disk.ReplaceWith(path, key, 0o600, GiveToOwner)
	}
	if err == nil && len(key) != sha256.Size {
		err = fmt.Errorf("%s has %d bytes, expected %d; remove it, and sessions get other tokens", path, len(key), sha256.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of sessions' tokens: %w", err)
	}
	c.sessionEvents.key = key
	return key, nil
}
