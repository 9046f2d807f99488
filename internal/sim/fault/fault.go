// Package fault switches a planted fault on, in a binary that was built with
// them. Nothing else reads it, and no source of the product names it.
package fault

import (
	"os"
	"strconv"
)

var active = func() int {
	n, err := strconv.Atoi(os.Getenv("STEADY_FAULT"))
	if err != nil {
		return 0
	}
	return n
}()

// On reports whether the fault with this number is on.
func On(id int) bool { return id == active }
