package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// loginRate is how often somebody may log in: those who fail by where they are, those who
// do not by their token, for each is a record of the log.
var loginRate = server.RateLimit{Tokens: 1, Per: 3 * clock.Second, Burst: 20}

// maxRates bounds whose logins are counted.
const maxRates = 4096

// logins is what the server remembers of logins; a restart forgets it.
type logins struct {
	sync.Mutex
	codes access.Codes
	rates map[string]*server.RateBucket
}

// spend counts a login of somebody. Whose logins are too many to count are all counted anew: a
// secret is too long to be guessed at any rate.
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

// unspend takes back that a login was counted.
func (l *logins) unspend(who string) {
	l.Lock()
	defer l.Unlock()
	if b := l.rates[who]; b != nil {
		b.Return(loginRate, 1)
	}
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
	if err := c.logins.spend("from "+from, c.now()); err != nil {
		return Operator{}, "", err
	}
	token, err := c.tokenOf(secret, code)
	if err != nil {
		return Operator{}, "", err
	}
	c.logins.unspend("from " + from)
	if err := c.logins.spend("token "+token, c.now()); err != nil {
		return Operator{}, "", err
	}
	return c.openLogin(ctx, token)
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
