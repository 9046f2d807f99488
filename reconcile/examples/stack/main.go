// Command stack brings up servers in order, each with the address of the one before it, and
// takes the whole down at a deadline. Its servers listen in this process.
//
//	go run ./reconcile/examples/stack
//
// A server that cannot listen ends the stack, unless it is optional. A stack that is deleted
// closes its servers in the reverse order; at its deadline all close at once, since none may
// depend on another one then.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// stack is the parent: its servers come up in this order and go in the reverse of it.
type stack struct {
	Servers []declared `json:"servers"`
}

type declared struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Optional bool   `json:"optional,omitempty"` // its failure does not end the stack
}

type stacks struct{}

// Observe has nothing to look at: a stack is its children.
func (stacks) Observe(context.Context, reconcile.Resource[stack]) (none struct{}, err error) {
	return none, nil
}

func (stacks) Act(context.Context, reconcile.Resource[stack], reconcile.Action) error {
	return errors.ErrUnsupported // Decide gives no action
}

func (stacks) Decide(v reconcile.View[stack, struct{}]) reconcile.Decision {
	if v.Resource.Delete { // the children are gone already: the framework sees to that
		return reconcile.IsConverged(reconcile.Because("gone", ""))
	}
	var intents []reconcile.Intent
	var verdicts []reconcile.Verdict
	children := map[reconcile.Ref]reconcile.Child{}
	for _, c := range v.Children {
		children[c.Ref] = c
		if !slices.ContainsFunc(v.Resource.Desired.Servers, func(d declared) bool { return serverRef(v.Resource.Ref, d) == c.Ref }) {
			intents = append(intents, reconcile.Delete(c.Ref))
		}
	}
	upstream := "" // what the last server reported
	for i, d := range v.Resource.Desired.Servers {
		ref := serverRef(v.Resource.Ref, d)
		intents = append(intents, reconcile.Upsert(ref, server{d.Name, d.Listen, upstream}).WithOrder(i))
		c := children[ref]
		switch {
		case c.Phase == reconcile.Failed && d.Optional:
			verdicts = append(verdicts, reconcile.Verdict{Child: ref, Generation: c.Generation, Action: reconcile.Continue})
		case c.Phase != reconcile.Converged || json.Unmarshal(c.Report, &upstream) != nil:
			return reconcile.Wait(reconcile.Because("in-order", "waiting for "+d.Name)).With(intents...).WithVerdicts(verdicts...)
		}
	}
	return reconcile.IsConverged(reconcile.Because("up", "")).With(intents...).WithVerdicts(verdicts...).WithReport(upstream)
}

func serverRef(parent reconcile.Ref, d declared) reconcile.Ref {
	return reconcile.Ref{Kind: "server", ID: parent.ID + "/" + d.Name}
}

// open makes a controller of stacks, whose servers are in world.
func open(world *servers, opts ...reconcile.Option) (*reconcile.Controller, error) {
	c := reconcile.New(memory.New(), opts...)
	return c, errors.Join(
		reconcile.Register(c, "server", world, reconcile.Policy{OnDrift: reconcile.Enforce, Retry: reconcile.RetryPolicy{Max: 3, Base: 50 * time.Millisecond}}),
		reconcile.Register(c, "stack", stacks{}, reconcile.Policy{OnChildFailure: reconcile.Abort}))
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := open(&servers{open: map[reconcile.Ref]running{}}, reconcile.WithAfterCommit(func(ts []reconcile.Transition) {
		for _, t := range ts {
			fmt.Printf("%-19s %-9s %s\n", t.Ref, t.To, t.Reason)
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = c.Run(ctx) }()
	shop := reconcile.Ref{Kind: "stack", ID: "shop"}
	want := stack{[]declared{{"db", "127.0.0.1:0", false}, {"metrics", "192.0.2.1:1", true}, {"web", "127.0.0.1:0", false}}}
	now := time.Now()
	_, err = c.Apply(ctx, reconcile.Upsert(shop, want).WithNotAfter(now.Add(2*time.Second)).WithDeleteBy(now.Add(5*time.Second)), reconcile.By("main"))
	if err == nil {
		err = c.WaitConverged(ctx, shop)
	}
	e, _ := c.Explain(ctx, shop)
	var address string
	_ = json.Unmarshal(e.Row.Report(), &address)
	fmt.Println("answer:", ask(address), err)
	for err == nil && !e.Row.Phase.Terminal() { // the end comes by itself
		time.Sleep(100 * time.Millisecond)
		e, err = c.Explain(ctx, shop)
	}
}
