package account

import (
	"maps"
	"slices"
	"time"

	"payledger/httpapi/wire"
)

// routeRow are a route's attempts of the last 24 hours and of the last 30 days.
type routeRow struct {
	Route      string
	Day, Month wire.RouteAttempts
}

// Ended are the attempts that came to an end.
func (overviewPage) Ended(a wire.RouteAttempts) uint64 { return a.Paid + a.Failed }

// routeRows are the routes on which customers tried to pay lately, by name.
func (v *visit) routeRows() ([]routeRow, error) {
	day, err := v.API.Attempts(v.Ctx(), v.Caller, v.Now().Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	month, err := v.API.Attempts(v.Ctx(), v.Caller, v.Now().AddDate(0, 0, -30))
	if err != nil {
		return nil, err
	}
	rows := make([]routeRow, 0, len(month))
	for _, route := range slices.Sorted(maps.Keys(month)) {
		rows = append(rows, routeRow{route, day[route], month[route]})
	}
	return rows, nil
}
