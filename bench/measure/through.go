package measure

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
)

// The bounds of a stream through the control plane.
const (
	minSpeed = 0.97
	maxAdded = 15 * time.Millisecond
)

// round is what some streams that began together saw through one door.
type round struct {
	speed    float64 // tokens a second of all together, from the first request to the last end
	decoding float64 // median of the streams
	first    time.Duration
}

// Through asks the same model server through the control plane and directly, in turns, with so many
// streams at once.
func Through(ctx context.Context, through, direct rig.Door, streams, rounds int) ([]report.Row, error) {
	asker := &asker{doors: [2]rig.Door{through, direct}}
	for i := range asker.clients {
		asker.clients[i] = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: rig.Slots, DisableCompression: true,
			DisableKeepAlives: i == 1, // llama-server closes the connection after a stream, whatever it says
		}}
		defer asker.clients[i].CloseIdleConnections()
	}
	speed, err := asker.rounds(ctx, long, streams, rounds)
	if err != nil {
		return nil, err
	}
	first, err := asker.rounds(ctx, short, streams, rounds*firstRounds)
	if err != nil {
		return nil, err
	}
	return append(speedRows(speed, streams), firstRows(first, streams)...), nil
}

// firstRounds is how many rounds for the first token are made for each round for speed.
const firstRounds = 5

// rounds asks both doors in turns: through the control plane first in the result.
func (a *asker) rounds(ctx context.Context, k kind, streams, n int) (seen [2][]round, _ error) {
	a.prompt = 0
	for i := range n + 1 {
		for turn := range 2 {
			door := (i + turn) % 2 // who comes first changes with each round
			r, err := a.round(ctx, k, door, streams)
			if err != nil {
				return seen, fmt.Errorf("ask %s: %w", [...]string{"through the control plane", "llama-server"}[door], err)
			}
			if i > 0 { // the first round opens connections and fills caches
				seen[door] = append(seen[door], r)
			}
		}
	}
	return seen, nil
}

func speedRows(seen [2][]round, streams int) []report.Row {
	through, direct := seen[0], seen[1]
	var ratios, decoding []float64
	for i := range through {
		ratios = append(ratios, through[i].speed/direct[i].speed)
		decoding = append(decoding, through[i].decoding/direct[i].decoding)
	}
	speed := func(r round) float64 { return r.speed }
	return []report.Row{
		{
			What: named(streams) + ": tokens/s through ÷ direct",
			Measured: fmt.Sprintf("%.3f (%.1f ÷ %.1f; between first and last word %.3f)",
				median(ratios), median(of(through, speed)), median(of(direct, speed)), median(decoding)),
			Bound: fmt.Sprintf("≥ %.2f", minSpeed), OK: median(ratios) >= minSpeed,
		},
	}
}

func firstRows(seen [2][]round, streams int) []report.Row {
	through, direct := seen[0], seen[1]
	var added []time.Duration
	for i := range through {
		added = append(added, through[i].first-direct[i].first)
	}
	first := func(r round) time.Duration { return r.first }
	return []report.Row{
		{
			What:     named(streams) + ": time to first token, added",
			Measured: fmt.Sprintf("%.1f ms (%.1f − %.1f)", ms(median(added)), ms(median(of(through, first))), ms(median(of(direct, first)))),
			Bound:    fmt.Sprintf("≤ %.0f ms", ms(maxAdded)), OK: median(added) <= maxAdded,
		},
	}
}

func named(streams int) string {
	if streams == 1 {
		return "1 stream"
	}
	return fmt.Sprintf("%d streams", streams)
}

// asker asks two doors, never both at the same time.
type asker struct {
	doors   [2]rig.Door
	clients [2]*http.Client
	prompts prompts
	prompt  int // tokens of each prompt, once known
}

// round asks one door with so many streams at once.
func (a *asker) round(ctx context.Context, k kind, door, streams int) (round, error) {
	answers := make([]answer, streams)
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i := range answers {
		prompt := a.prompts.make(k)
		group.Go(func() (err error) {
			answers[i], err = ask(ctx, a.clients[door], a.doors[door], prompt, k.tokens)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return round{}, err
	}
	took := time.Since(began)
	tokens := 0
	for _, one := range answers {
		tokens += one.tokens
		if a.prompt == 0 {
			a.prompt = one.prompt
		}
		if one.prompt != a.prompt {
			return round{}, fmt.Errorf("one prompt has %d tokens, another %d: the comparison would be unfair", one.prompt, a.prompt)
		}
	}
	return round{
		speed:    float64(tokens) / took.Seconds(),
		decoding: median(of(answers, answer.decoding)),
		first:    median(of(answers, func(a answer) time.Duration { return a.first })),
	}, nil
}
