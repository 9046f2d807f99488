package place_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
)

// bigFleet is 1,000 hosts of 8 GPUs with 5,000 reservations in a day.
func bigFleet() (hosts []place.Host, res []place.Reservation) {
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		h := lab(fmt.Sprintf("h%04d", i), 8)
		h.Tags = []string{fmt.Sprintf("rack-%d", i%20)}
		h.Facts.CPUs, h.Facts.Memory = 64, 256<<30
		hosts = append(hosts, h)
	}
	for i := range 5000 {
		from := draw.IntN(20)
		res = append(res, place.Reservation{Pod: place.Pod{Owner: fmt.Sprintf("s%d/p/%d", i/10, i%10), Group: "g"}, Host: hosts[i%1000].Name,
			Slot:      place.Slot{From: hour(from), To: hour(from + 1 + draw.IntN(4))},
			Resources: place.Resources{MilliCPU: 4000, Memory: 8 << 30}, GPUs: []int{i / 1000}})
	}
	return hosts, res
}

func BenchmarkPlace(b *testing.B) {
	hosts, res := bigFleet()
	req := want("z/p/1", place.Slot{From: hour(10), To: hour(14)}, 2)
	full := req
	full.GPU.Count = 8
	spread := req
	spread.Group, spread.Spread = "g", &place.Spread{Tags: []string{"rack-1", "rack-2", "rack-3"}}
	for name, req := range map[string]place.Request{"free": req, "full": full, "spread": spread} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				place.Place(req, hosts, res)
			}
		})
	}
}

func BenchmarkPlaceAll(b *testing.B) {
	hosts, res := bigFleet()
	var reqs []place.Request
	for i := range 20 {
		reqs = append(reqs, want(fmt.Sprintf("z/p/%d", i), place.Slot{From: hour(10), To: hour(14)}, 2))
	}
	b.ReportAllocs()
	for b.Loop() {
		place.PlaceAll(reqs, hosts, res)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(reqs)), "ns/placement")
}

// BenchmarkRefusedSet is of pods of which each fits alone, with too few hosts for all.
func BenchmarkRefusedSet(b *testing.B) {
	hosts, res := bigFleet()
	var reqs []place.Request
	for i := range 60 {
		r := want(fmt.Sprintf("z/p/%d", i), place.Slot{From: hour(-4), To: hour(0)}, 8)
		r.Selector.All, r.Selector.Tags = false, []string{"rack-1"}
		reqs = append(reqs, r)
	}
	b.ReportAllocs()
	for b.Loop() {
		if place.PlaceAll(reqs, hosts, res).Refused == nil {
			b.Fatal("60 pods fit on 50 hosts")
		}
	}
}

func BenchmarkNextSlot(b *testing.B) {
	hosts, res := bigFleet()
	for i := range hosts {
		res = append(res, place.Reservation{Pod: place.Pod{Owner: fmt.Sprintf("night/p/%d", i)}, Host: hosts[i].Name,
			Slot: place.Slot{From: hour(9), To: hour(12)}, GPUs: []int{5, 6, 7}})
	}
	req := want("z/p/1", place.Slot{From: hour(10), To: hour(14)}, 8)
	b.ReportAllocs()
	for b.Loop() {
		place.NextSlot(req, hosts, res, hour(10).Add(clock.Day))
	}
}
