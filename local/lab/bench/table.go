package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// group contains the measurements of one kind of store.
type group struct {
	Name   string  `json:"name"`
	Tables []table `json:"tables"`
	Goals  []goal  `json:"goals"`
}

// table contains figures. It has a row for each contender and a column for each measurement.
type table struct {
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"`
	Corner  string   `json:"-"` // head of the column with the names of the rows
	Columns []column `json:"columns"`
	Omitted []string `json:"-"` // rows and columns that only the JSON contains
	Rows    []row    `json:"rows"`
}

type column struct {
	Name   string `json:"name"`
	Digits int    `json:"-"` // after the decimal point
}

type row struct {
	Name   string   `json:"name"`
	Values []figure `json:"values"` // medians of rounds
	rounds [][]figure
}

// figure is a number, or none for a missing value.
type figure float64

// none is the figure of a missing value.
var none = figure(math.NaN())

// MarshalJSON implements json.Marshaler. A missing value is null, because JSON has no NaN.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

func (f figure) text(digits int) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(float64(f), 'f', digits, 64)
}

// goal contains the required value of a figure and the measured value.
type goal struct {
	What     string `json:"what"`
	Want     string `json:"want"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
	// Why explains, with measured values, why Weir misses the goal. It is "" if the goal is met, or if no
	// explanation is given.
	Why string `json:"why,omitempty"`
}

// because returns the goal with the argument why Weir misses it. A goal that Weir meets gets no argument.
func (g goal) because(why string) goal {
	if !g.Met {
		g.Why = why
	}
	return g
}

func atMost(what string, f figure, most float64, digits int) goal {
	return goal{What: what, Want: "at most " + figure(most).text(digits), Measured: f.text(digits), Met: float64(f) <= most}
}

func below(what string, f figure, limit float64, digits int) goal {
	return goal{What: what, Want: "below " + figure(limit).text(digits), Measured: f.text(digits), Met: float64(f) < limit}
}

func atLeast(what string, f figure, least float64, digits int) goal {
	return goal{What: what, Want: "at least " + figure(least).text(digits), Measured: f.text(digits), Met: float64(f) >= least}
}

func (t table) value(name, column string) figure {
	if r, c := t.row(name), t.column(column); r != nil && c >= 0 {
		return r.Values[c]
	}
	return none
}

// ratio returns the median of the ratios of two rows in a column. The two figures of a ratio are from
// the same round, so that other load on the machine affects both.
func (t table) ratio(name, reference, column string) figure {
	r, to, c := t.row(name), t.row(reference), t.column(column)
	if r == nil || to == nil || c < 0 {
		return none
	}
	var ratios []figure
	for i := range r.rounds {
		ratios = append(ratios, r.rounds[i][c]/to.rounds[i][c])
	}
	return median(ratios)
}

// row returns the row with a name, or nil if there is none.
func (t table) row(name string) *row {
	for i := range t.Rows {
		if t.Rows[i].Name == name {
			return &t.Rows[i]
		}
	}
	return nil
}

// column returns the index of a column, or -1 if there is none.
func (t table) column(name string) int {
	return slices.IndexFunc(t.Columns, func(c column) bool { return c.Name == name })
}

// markdown returns the table, padded so that it reads as plain text too.
func (t table) markdown() string {
	cells := [][]string{{t.Corner}}
	for _, c := range t.Columns {
		if !slices.Contains(t.Omitted, c.Name) {
			cells[0] = append(cells[0], c.Name)
		}
	}
	for _, r := range t.Rows {
		if slices.Contains(t.Omitted, r.Name) {
			continue
		}
		line := []string{r.Name}
		for i, v := range r.Values {
			if c := t.Columns[i]; !slices.Contains(t.Omitted, c.Name) {
				line = append(line, v.text(c.Digits))
			}
		}
		cells = append(cells, line)
	}
	text := "## " + t.Title + "\n\n" + grid(cells, true)
	if t.Note != "" {
		text += "\n" + t.Note + "\n"
	}
	return text
}

// grid returns a Markdown table. The first line is the head. The first column is aligned left. The other
// columns are aligned right if they are numbers.
func grid(cells [][]string, numbers bool) string {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	for n, line := range cells {
		b.WriteString("|")
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numbers && i > 0 {
				fmt.Fprintf(&b, " %s%s |", pad, cell)
			} else {
				fmt.Fprintf(&b, " %s%s |", cell, pad)
			}
		}
		b.WriteString("\n")
		if n > 0 {
			continue
		}
		b.WriteString("|")
		for i := range line {
			if numbers && i > 0 {
				b.WriteString(strings.Repeat("-", widths[i]+1) + ":|")
			} else {
				b.WriteString(strings.Repeat("-", widths[i]+2) + "|")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// goalGrid returns goals as a Markdown table. The mark of a missed goal is MISSED. If an argument explains
// the miss, the mark is "missed" with the number of the argument. The arguments follow the table.
func goalGrid(goals []goal) string {
	cells := [][]string{{"goal", "want", "measured", ""}}
	var arguments []string
	for _, g := range goals {
		verdict := "MISSED"
		switch {
		case g.Met:
			verdict = "met"
		case g.Why != "":
			n := slices.Index(arguments, g.Why)
			if n < 0 {
				n, arguments = len(arguments), append(arguments, g.Why)
			}
			verdict = fmt.Sprintf("missed (%d)", n+1)
		}
		cells = append(cells, []string{g.What, g.Want, g.Measured, verdict})
	}
	var b strings.Builder
	b.WriteString(grid(cells, false))
	for i, why := range arguments {
		fmt.Fprintf(&b, "\n(%d) %s\n", i+1, why)
	}
	return b.String()
}

// aboveZero lists the figures above zero in the columns.
func (t table) aboveZero(columns ...string) string {
	var texts []string
	for _, r := range t.Rows {
		for i, v := range r.Values {
			if c := t.Columns[i]; v > 0 && slices.Contains(columns, c.Name) {
				texts = append(texts, fmt.Sprintf("%s %q of %s", v.text(c.Digits), c.Name, r.Name))
			}
		}
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}
