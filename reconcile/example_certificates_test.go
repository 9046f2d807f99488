package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// cert is what is desired of a certificate.
type cert struct{ Name string }

// issue is the only action.
type issue struct{ Name string }

func (issue) ActionName() string { return "issue" }

// certs is a kind of certificates that last 90 days, and the CA that issues them.
type certs struct {
	now   func() time.Time
	ends  map[string]time.Time
	calls int
}

func (c *certs) Observe(_ context.Context, r reconcile.Resource[cert]) (time.Time, error) {
	return c.ends[r.Ref.ID], nil
}

func (*certs) Decide(v reconcile.View[cert, time.Time]) reconcile.Decision {
	if v.Resource.Delete {
		return reconcile.IsConverged(reconcile.Because("expires", "it ends by itself"))
	}
	renew := v.Observed.Add(-30 * 24 * time.Hour) // what is observed is when it ends
	if v.Now.Before(renew) {
		return reconcile.IsConverged(reconcile.Because("valid", "")).RequeueAt(renew).WithReport(v.Observed)
	}
	return reconcile.Do(issue{v.Resource.Desired.Name}, reconcile.Because("ends-soon", "it ends within 30 days"))
}

// Act has a CA that is away for each second call.
func (c *certs) Act(_ context.Context, r reconcile.Resource[cert], _ reconcile.Action) error {
	if c.calls++; c.calls%2 == 0 {
		return errors.New("the CA is away")
	}
	c.ends[r.Ref.ID] = c.now().Add(90 * 24 * time.Hour)
	return nil
}

// Certificates are renewed before they expire, for a year that passes at once: a Stepper takes the turns on a clock
// of the program's own. Other programs call Run.
func Example_certificates() {
	ctx, now := context.Background(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	kind := &certs{now: func() time.Time { return now }, ends: map[string]time.Time{}}
	c := reconcile.New(memory.New(), reconcile.WithNow(kind.now))
	const names reconcile.KindOf[cert] = "cert"
	err := reconcile.Register(c, string(names), kind, reconcile.Policy{})
	_, failed := c.Apply(ctx, names.Upsert("web", cert{Name: "example.org"}), reconcile.By("me"))
	turns, stopped := c.Stepper(ctx)
	if err := errors.Join(err, failed, stopped); err != nil {
		fmt.Println(err)
		return
	}
	defer turns.Stop()
	valid := true
	for end := now.AddDate(1, 0, 0); now.Before(end); {
		next := turns.Step()
		valid = valid && now.Before(kind.ends["web"])
		now = next
	}
	row, err := c.Get(ctx, names.Ref("web"))
	fmt.Println(row.Phase, err, "valid all the time:", valid)
	fmt.Println(kind.calls, "calls of the CA")
	// Output:
	// converged <nil> valid all the time: true
	// 13 calls of the CA
}
