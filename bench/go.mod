module interlock.sh/bench

go 1.26.0

require (
	golang.org/x/sync v0.25.0
	interlock.sh v0.0.0
)

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/gofrs/flock v0.13.2 // indirect
	golang.org/x/mod v0.43.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace interlock.sh => ../
