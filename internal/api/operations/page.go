package operations

import "github.com/steadyfleet/steady/internal/api/operator"

// Cut is embedded in inputs that ask for a part of a list.
type Cut struct {
	Offset int `query:"offset" minimum:"0" maximum:"10000000"`
	Limit  int `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// pageOf is the part of a list that is asked for. It keeps nothing else of the list.
func pageOf[T any](c Cut, all []T) operator.Page[T] {
	from := min(c.Offset, len(all))
	items := all[from:min(from+c.Limit, len(all))]
	return operator.Page[T]{Total: len(all), Offset: c.Offset, Items: append(make([]T, 0, len(items)), items...)}
}
