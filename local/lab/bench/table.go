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
	text := "## " + t.Title + "\n\n" + grid(cells)
	if t.Note != "" {
		text += "\n" + t.Note + "\n"
	}
	return text
}

// grid returns a Markdown table. The first line is the head. The first column is aligned left, the others right.
func grid(cells [][]string) string {
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
			if i > 0 {
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
			if i > 0 {
				b.WriteString(strings.Repeat("-", widths[i]+1) + ":|")
			} else {
				b.WriteString(strings.Repeat("-", widths[i]+2) + "|")
			}
		}
		b.WriteString("\n")
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
