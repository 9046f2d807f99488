package outside

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// A cron job makes a job at each multiple of its period, never two at once, and keeps the last three.

type cronJob struct {
	Period  time.Duration
	Suspend bool
}

type job struct{ At time.Time }

const (
	cronJobs reconcile.KindOf[cronJob] = "cron"
	jobs     reconcile.KindOf[job]     = "job"
)

type cronKind struct{}

func (cronKind) Observe(context.Context, reconcile.Resource[cronJob]) (struct{}, error) {
	return struct{}{}, nil
}

func (cronKind) Decide(v reconcile.View[cronJob, struct{}]) reconcile.Decision {
	spec := v.Resource.Desired
	at := v.Now.Truncate(spec.Period)
	d := reconcile.IsConverged(reconcile.Because("scheduled", "")).RequeueAt(at.Add(spec.Period))
	busy, id := false, fmt.Sprint(v.Resource.Ref.ID, "-", at.Unix())
	for i, c := range v.Children {
		busy = busy || c.Phase != reconcile.Converged && c.Phase != reconcile.Failed || c.Ref == jobs.Ref(id)
		if i < len(v.Children)-3 {
			d = d.With(reconcile.Delete(c.Ref))
		}
	}
	if !busy && !spec.Suspend {
		d = d.With(jobs.Upsert(id, job{at}))
	}
	return d
}

func (cronKind) Act(context.Context, reconcile.Resource[cronJob], reconcile.Action) error { return nil }

type jobKind struct{ ran map[string]bool }

type start struct{}

func (start) ActionName() string { return "start" }

func (k jobKind) Observe(_ context.Context, r reconcile.Resource[job]) (bool, error) {
	return k.ran[r.Ref.ID], nil
}

func (jobKind) Decide(v reconcile.View[job, bool]) reconcile.Decision {
	if v.Observed || v.Resource.Delete {
		return reconcile.IsConverged(reconcile.Because("ran", ""))
	}
	return reconcile.Do(start{}, reconcile.Because("due", ""))
}

func (k jobKind) Act(_ context.Context, r reconcile.Resource[job], _ reconcile.Action) error {
	time.Sleep(90 * time.Second) // longer than a period: each second one is left out
	k.ran[r.Ref.ID] = true
	return nil
}

func TestCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		k := jobKind{map[string]bool{}}
		c := reconcile.New(memory.New())
		for _, err := range []error{
			reconcile.Register(c, "cron", cronKind{}, reconcile.Policy{}),
			reconcile.Register(c, "job", k, reconcile.Policy{ActTimeout: 5 * time.Minute}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		set := func(spec cronJob) {
			if _, err := c.Apply(ctx, cronJobs.Upsert("a", spec), reconcile.By("me")); err != nil {
				t.Fatal(err)
			}
		}
		set(cronJob{Period: time.Minute})
		go func() { _ = c.Run(ctx) }()
		time.Sleep(24 * time.Hour)
		if n := len(k.ran); n < 700 || n > 1000 {
			t.Errorf("%d jobs ran in a day, want one in each two minutes or less", n)
		}
		set(cronJob{Period: time.Minute, Suspend: true})
		time.Sleep(10 * time.Minute)
		n := len(k.ran)
		time.Sleep(time.Hour)
		if len(k.ran) != n {
			t.Errorf("%d jobs ran while it was suspended", len(k.ran)-n)
		}
		e, err := c.Explain(ctx, cronJobs.Ref("a"))
		if err != nil || len(e.Children) > 4 || !strings.Contains(e.String(), "cron/a is converged") {
			t.Errorf("%v; it has %d children:\n%s", err, len(e.Children), e)
		}
	})
}
