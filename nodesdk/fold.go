package nodesdk

import "github.com/steadyfleet/steady/internal/core/nodeconfig"

// Fold is what a device does not tell apart, for the Normalize of its driver. Without it null
// and absent are two values, as 1 and 1.0 are.
type Fold struct {
	// Nulls are members that are null: the device takes them for absent. Elements of lists
	// that are null stay.
	Nulls bool
	// Numbers are whole floats: the device has one type of number, in which 1.0 is 1.
	Numbers bool
}

// Item is an object with what the device does not tell apart in one form. It is idempotent;
// an object whose config is no JSON stays as it is.
func (f Fold) Item(it Item) Item {
	if config, err := nodeconfig.Fold(f).Config(it.Config); err == nil {
		it.Config = config
	}
	return it
}
