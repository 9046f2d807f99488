package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestPolicyNamesTheUnit(t *testing.T) {
	for want, p := range map[string]engine.Policy{
		"retry.base is 5ns":           {Retry: engine.RetryPolicy{Base: 5}},
		"retry.cap is 60ns":           {Retry: engine.RetryPolicy{Cap: 60}},
		"actTimeout is 30ns":          {ActTimeout: 30},
		"observeTimeout is -1s":       {ObserveTimeout: -time.Second},
		"cleanupGrace is 10ns":        {CleanupGrace: 10},
		"resync is 60ns":              {Resync: 60},
		"revive is 100000h0m0s":       {Revive: 100_000 * time.Hour},
		"history.age is 7ns":          {History: engine.History{Age: 7}},
		"reviveCap is 1ns":            {ReviveCap: 1},
		"want max >= 1 and base <=":   {Retry: engine.RetryPolicy{Base: time.Minute, Cap: time.Second}},
		"maxSteps is -1":              {MaxSteps: -1},
		"want at least revive, 2h0m0": {Revive: 2 * time.Hour, ReviveCap: time.Hour},
	} {
		err := reconcile.Register(reconcile.New(nil), "k", odd{}, p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		if strings.Contains(want, "ns") && !strings.Contains(err.Error(), "write 30*time.Second") {
			t.Errorf("%v does not say how to write it", err)
		}
	}
	for _, p := range []engine.Policy{{}, reconcile.Every(30 * time.Second), {Revive: 2 * time.Hour}} {
		if err := p.WithDefaults().Validate(); err != nil {
			t.Error(err)
		}
	}
}
