package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// loginRate is how often a login may fail, by where it comes from and by what was given, and how often one may succeed with a
// token, for each is a record of the log. Whoever fails keeps nobody out who gives what is right: a secret is too long to be
// guessed at any rate.
var loginRate = server.RateLimit{Tokens: 1, Per: 3 * clock.Second, Burst: 20}

// failedPause is how long the answer to a login takes that is one too many of those that failed: who sends them one after the
// other takes no processor from others.
const failedPause = 100 * time.Millisecond

// maxRates bounds whose logins are counted.
const maxRates = 4096

// logins is what the server remembers of logins; a restart forgets it.
type logins struct {
	sync.Mutex
	codes access.Codes
	rates map[string]*server.RateBucket
}

// spend counts a login of somebody. Whose logins are too many to count are all counted anew.
func (l *logins) spend(who string, now clock.Instant) error {
	l.Lock()
	defer l.Unlock()
	b := l.rates[who]
	if b == nil {
		if l.rates == nil || len(l.rates) >= maxRates {
			l.rates = map[string]*server.RateBucket{}
		}
		b = &server.RateBucket{}
		l.rates[who] = b
	}
	if wait := b.Spend(loginRate, 1, now); wait > 0 {
		return &wire.Refusal{Kind: wire.ErrTooMuch, Message: "too many logins; try again in " + wait.String(), After: wait}
	}
	return nil
}

// LoginCode makes a code that opens one login of a token, and says until when.
func (c *Control) LoginCode(token string) (code string, expires clock.Instant) {
	code = rand.Text()
	c.logins.Lock()
	defer c.logins.Unlock()
	if c.logins.codes == nil {
		c.logins.codes = access.Codes{}
	}
	return code, c.logins.codes.Add(sha256.Sum256([]byte(code)), token, c.now())
}

// Login opens a login of the token whose secret is given, or else of the code's, and returns
// it with its secret, which is kept nowhere. From is where the caller is. Refusals of the secret
// or code are of kind wire.ErrForbidden.
func (c *Control) Login(ctx context.Context, from, secret, code string) (Operator, string, error) {
	token, err := c.tokenOf(secret, code)
	if errors.Is(err, wire.ErrForbidden) {
		given := sha256.Sum256([]byte(secret + code))
		for _, who := range []string{"code " + string(given[:]), "from " + from} { // one that is sent again and again does not use up what is left to others there
			if tooOften := c.logins.spend(who, c.now()); tooOften != nil {
				pause(ctx, failedPause)
				return Operator{}, "", tooOften
			}
		}
	}
	if err != nil {
		return Operator{}, "", err
	}
	if err := c.logins.spend("token "+token, c.now()); err != nil {
		return Operator{}, "", err
	}
	return c.openLogin(ctx, token)
}

// pause returns after a time, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *Control) tokenOf(secret, code string) (id string, err error) {
	if secret != "" {
		o, err := c.Operator(secret)
		return o.ID, err
	}
	c.logins.Lock()
	defer c.logins.Unlock()
	if id, err = c.logins.codes.Redeem(sha256.Sum256([]byte(code)), c.now()); err != nil {
		err = wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	return id, err
}

func (c *Control) openLogin(ctx context.Context, token string) (o Operator, secret string, err error) {
	o.ID, secret = newSecret()
	asked := added(o, secret, "")
	asked.Parent = token
	err = c.record(ctx, c.normal, "", func(s *server.State, now clock.Instant) ([]event.Event, error) {
		events, err := s.Plan.Operators.Open(asked, now)
		for _, ev := range events {
			if opened, ok := ev.(event.OperatorTokenAdded); ok {
				o = Operator{ID: opened.ID, Name: opened.Name, Role: opened.Role, Expires: opened.Expires, Parent: opened.Parent}
			}
		}
		return events, refusal(err)
	})
	return o, secret, err
}
