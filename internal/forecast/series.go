package forecast

import "github.com/steadyfleet/steady/internal/core/clock"

// buckets is how many steps of time a series keeps.
const buckets = 96

// Series is the highest level of something in each step of time from the start.
// Steps double as time goes on, so that it stays small however long it gets.
type Series struct {
	// Width is the length of a step.
	Width clock.Duration `json:"width"`
	// Levels has one entry per step, up to the last change.
	Levels []int `json:"levels"`

	level int
}

// set says that from an instant on, counted from the start, the level is another
// one. Instants must not go back.
func (s *Series) set(at clock.Duration, level int) {
	s.reach(at)
	s.level = level
	last := len(s.Levels) - 1
	s.Levels[last] = max(s.Levels[last], level)
}

// reach extends the series at its level up to an instant.
func (s *Series) reach(at clock.Duration) {
	if s.Width == 0 {
		s.Width = clock.Second
	}
	for at/s.Width >= buckets {
		s.widen()
	}
	for len(s.Levels) <= int(at/s.Width) {
		s.Levels = append(s.Levels, s.level)
	}
}

func (s *Series) widen() {
	half := s.Levels[:0]
	for i := 0; i < len(s.Levels); i += 2 {
		v := s.Levels[i]
		if i+1 < len(s.Levels) {
			v = max(v, s.Levels[i+1])
		}
		half = append(half, v)
	}
	s.Levels, s.Width = half, 2*s.Width
}

// Peak is the highest level.
func (s *Series) Peak() int {
	peak := 0
	for _, v := range s.Levels {
		peak = max(peak, v)
	}
	return peak
}

// Curve sums up the series of many runs: per step the mean and the highest.
type Curve struct {
	Width clock.Duration `json:"width"`
	Mean  []float64      `json:"mean"`
	Worst []int          `json:"worst"`
}

func curveOf(all []*Series) Curve {
	c := Curve{Mean: []float64{}, Worst: []int{}}
	if len(all) == 0 {
		return c
	}
	for _, s := range all {
		c.Width = max(c.Width, s.Width)
	}
	for _, s := range all {
		for s.Width < c.Width {
			s.widen()
		}
		for i, v := range s.Levels {
			if i == len(c.Worst) {
				c.Worst, c.Mean = append(c.Worst, 0), append(c.Mean, 0)
			}
			c.Worst[i] = max(c.Worst[i], v)
			c.Mean[i] += float64(v) / float64(len(all))
		}
	}
	return c
}
