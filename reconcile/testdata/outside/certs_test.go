package outside

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// A site has certificates as children, and a list of the serial numbers that its proxy serves.

type site struct{ Names []string }

type cert struct{ Name string }

type issued struct {
	Serial int
	Ends   time.Time
}

const (
	sites reconcile.KindOf[site] = "site"
	certs reconcile.KindOf[cert] = "cert"
)

type siteKind struct{ served *[]int }

func (siteKind) Observe(context.Context, reconcile.Resource[site]) (struct{}, error) {
	return struct{}{}, nil
}

func (s siteKind) Decide(v reconcile.View[site, struct{}]) reconcile.Decision {
	d := reconcile.IsConverged(reconcile.Because("served", ""))
	for _, name := range v.Resource.Desired.Names {
		d = d.With(certs.Upsert(name, cert{name}))
	}
	*s.served = append(*s.served, serials(v.Children)) // for the test: a decision has no other effect
	return d
}

func serials(children []reconcile.Child) (n int) {
	for _, c := range children {
		var i issued
		if json.Unmarshal(c.Report, &i) == nil && i.Serial > 0 {
			n++
		}
	}
	return n
}

func (siteKind) Act(context.Context, reconcile.Resource[site], reconcile.Action) error { return nil }

type certKind struct{ ca map[string]issued }

type order struct{ Name string }

func (order) ActionName() string { return "order" }

func (k certKind) Observe(_ context.Context, r reconcile.Resource[cert]) (issued, error) {
	return k.ca[r.Ref.ID], nil
}

func (certKind) Decide(v reconcile.View[cert, issued]) reconcile.Decision {
	if v.Resource.Delete {
		return reconcile.IsConverged(reconcile.Because("expires", ""))
	}
	if renew := v.Observed.Ends.Add(-time.Hour); v.Now.Before(renew) {
		return reconcile.IsConverged(reconcile.Because("valid", "")).RequeueAt(renew).WithReport(v.Observed)
	}
	return reconcile.Do(order{v.Resource.Desired.Name}, reconcile.Because("ends-soon", ""))
}

func (k certKind) Act(_ context.Context, r reconcile.Resource[cert], a reconcile.Action) error {
	now := k.ca[r.Ref.ID]
	if k.ca[r.Ref.ID] = (issued{now.Serial + 1, time.Now().Add(3*time.Hour + 500*time.Microsecond)}); now.Serial%3 == 0 {
		return errors.New("the answer was lost")
	}
	return nil
}

func TestCerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var served []int
		ca := certKind{map[string]issued{}}
		c := reconcile.New(memory.New(), reconcile.WithWorkers(1))
		err := errors.Join(
			reconcile.Register(c, "site", siteKind{&served}, reconcile.Policy{}),
			reconcile.Register(c, "cert", ca, reconcile.Policy{}))
		_, failed := c.Apply(ctx, sites.Upsert("a", site{[]string{"x", "y"}}), reconcile.By("me"))
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		go func() { _ = c.Run(ctx) }()
		if err := c.WaitConverged(ctx, sites.Ref("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first := len(served)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		for _, n := range served[first:] {
			if n != 2 {
				t.Fatalf("the proxy had %d certificates while one was renewed: %v", n, served)
			}
		}
		if ca.ca["x"].Serial < 12 || !time.Now().Before(ca.ca["x"].Ends) {
			t.Errorf("after a day it is %+v", ca.ca["x"])
		}
	})
}
