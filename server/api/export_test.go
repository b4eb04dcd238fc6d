package api

// Route is a line of the routes table, for tests that walk it.
type Route struct {
	Method, Path string
	Limit        int64
}

// Routes is the routes table.
func Routes() []Route {
	var out []Route
	for _, r := range new(API).routes() {
		out = append(out, Route{r.method, r.path, r.rule.limit()})
	}
	return out
}
