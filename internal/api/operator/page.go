package operator

import (
	"net/url"
	"strconv"
)

// Page is a part of a list that filters leave: of Total, the Items from Offset on.
type Page[T any] struct {
	Total  int `json:"total"`
	Offset int `json:"offset"`
	Items  []T `json:"items"`
}

// MaxPage bounds the items of a page.
const MaxPage = 200

// page is the query of a page: texts that are not empty, where it begins and how long it is.
func page(texts map[string]string, offset, limit int) url.Values {
	v := url.Values{}
	for key, text := range texts { // order-free: it fills a map
		if text != "" {
			v.Set(key, text)
		}
	}
	if offset > 0 {
		v.Set("offset", strconv.Itoa(offset))
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return v
}
