package reconcile_test

import (
	"testing"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) reconcile.Store { return reconcile.NewMemory() })
}
