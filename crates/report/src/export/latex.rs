//! Tables for LaTeX, in the style of booktabs.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::alone::WORSE_OFF;
use crate::quantity::one_line;
use crate::scoreboard::{FIGURES, Figure, Scoreboard, first_heading, reading};
use crate::seeds::{notes, worse_off};
use crate::{ReportError, RunLog, SeedRow, Spread, over_seeds, rows};

/// The table of a run, or of several that differ in their seeds (then with means and deviations), as an environment
/// `table` with its footnotes. What is bold or level is what the report says.
pub fn latex(logs: &[RunLog]) -> Result<String, ReportError> {
    match logs {
        [] => Ok(String::new()),
        [log] => Ok(run_latex(log)),
        [first, ..] => {
            let seeds: Vec<u64> = logs.iter().map(|log| log.started.seed).collect();
            Ok(seed_latex(&first.started.name, &seeds, &over_seeds(logs)?))
        }
    }
}

fn run_latex(log: &RunLog) -> String {
    let board = Scoreboard::new(&rows(log));
    let worse = (!board.worse_off.is_empty()).then_some(WORSE_OFF);
    let mut grid = Grid::new(&[&first_heading(board.metric)], worse.into_iter().chain(["time"]));
    for (slot, entry) in board.entries.iter().enumerate() {
        let mut name = one_line(&entry.name);
        if let Some(progress) = &entry.progress {
            let _ = write!(name, ", {progress}");
        }
        if entry.noted {
            name.push('†');
        }
        let figures = entry.figures.iter().chain(board.worse_off.get(slot)).map(figure);
        grid.rows.push(
            [escaped(&name)].into_iter().chain(figures).chain([escaped(&entry.time)]).collect(),
        );
    }
    let mut further = Grid::new(&["further metric", "method"], None);
    for entry in &board.further {
        let first = [escaped(entry.metric.title()), escaped(&entry.name)];
        further.rows.push(first.into_iter().chain(entry.figures.iter().map(figure)).collect());
    }
    let run = &log.started;
    let caption = format!(
        "{}: {}, {}, {} clients, {} rounds, seed {}. {}",
        one_line(&run.name),
        run.dataset,
        run.network,
        run.clients.len(),
        run.rounds,
        run.seed,
        reading(board.metric)
    );
    document(&run.name, &caption, &grid, &further, &board.notes)
}

/// The table of [`crate::over_seeds`] for an experiment and its seeds: means with deviations.
pub fn seed_latex(name: &str, seeds: &[u64], rows: &[SeedRow]) -> String {
    let metric = rows.first().map_or_else(Default::default, |row| row.metric);
    let worse = worse_off(rows.iter());
    let heading = (!worse.is_empty()).then_some(WORSE_OFF);
    let mut grid = Grid::new(&[&first_heading(metric)], heading);
    let mut further = Grid::new(&["further metric", "method"], None);
    for (slot, row) in rows.iter().enumerate() {
        let spreads = [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last];
        let name = escaped(&row.name);
        let name = if row.failed > 0 { name + &escaped("†") } else { name };
        let worse = worse.get(slot).map(figure);
        grid.rows.push([name].into_iter().chain(cells(row, spreads, true)).chain(worse).collect());
    }
    let metrics = rows.first().map_or(0, |row| row.further.len());
    for place in 0..metrics {
        for row in rows {
            let by = &row.further[place];
            let spreads = [by.gm_best, by.gm_last, by.pm_best, by.pm_last, by.worst_decile_last];
            let first = [escaped(by.metric.title()), escaped(&row.name)];
            further.rows.push(first.into_iter().chain(cells(row, spreads, false)).collect());
        }
    }
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let over = match seeds.len() {
        1 => format!("seed {}", seeds[0]),
        _ => format!("mean ± standard deviation over the seeds {}", seeds.join(", ")),
    };
    let caption = format!("{}: {over}. {}", one_line(name), reading(metric));
    document(name, &caption, &grid, &further, &notes(rows))
}

pub(super) fn cells(row: &SeedRow, spreads: [Spread; 5], ranked: bool) -> Vec<String> {
    let each = spreads.into_iter().enumerate();
    each.map(|(column, spread)| figure(&row.cell(spread, column, ranked))).collect()
}

/// Headings and rows, ready to print.
pub(super) struct Grid {
    /// How many columns stand before the figures.
    pub(super) names: usize,
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    /// With columns of figures, and some more behind them.
    fn new(names: &[&str], more: impl IntoIterator<Item = &'static str>) -> Self {
        let figures = FIGURES.into_iter().chain(more).map(escaped);
        let headings = names.iter().copied().map(escaped).chain(figures).collect();
        Self { names: names.len(), headings, rows: Vec::new() }
    }

    fn tabular(&self) -> String {
        let columns = "l".repeat(self.names) + &"r".repeat(self.headings.len() - self.names);
        let mut text = format!("  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n");
        let _ = writeln!(text, "    {} \\\\\n    \\midrule", self.headings.join(" & "));
        for row in &self.rows {
            let _ = writeln!(text, "    {} \\\\", row.join(" & "));
        }
        text + "    \\bottomrule\n  \\end{tabular}\n"
    }
}

/// A table of any columns, of which the first one names the rows.
pub(crate) struct Tabular {
    /// What `\\ref` calls it, as plain text.
    pub(crate) label: String,
    pub(crate) caption: String,
    pub(crate) head: Vec<String>,
    /// Texts, each with whether it is bold.
    pub(crate) rows: Vec<Vec<(String, bool)>>,
}

/// Tables one after the other, with notes below the last one.
pub(crate) fn tabulars(tables: &[Tabular], notes: &[String]) -> String {
    let mut text = String::from(NEEDS);
    for (place, table) in tables.iter().enumerate() {
        let shown = |(text, bold): &(String, bool)| {
            let shown = escaped(text);
            if *bold { format!("\\textbf{{{shown}}}") } else { shown }
        };
        let grid = Grid {
            names: 1,
            headings: table.head.iter().map(|head| escaped(head)).collect(),
            rows: table.rows.iter().map(|row| row.iter().map(shown).collect()).collect(),
        };
        let below = if place + 1 == tables.len() { notes } else { &[] };
        environment(&mut text, &table.label, &table.caption, &[&grid], below);
    }
    text
}

pub(super) const NEEDS: &str =
    "% Needs \\usepackage{booktabs}; \\input this file where the table is to stand.\n";

fn document(name: &str, caption: &str, grid: &Grid, further: &Grid, notes: &[String]) -> String {
    let mut text = String::from(NEEDS);
    let grids = [grid, further];
    let filled = if further.rows.is_empty() { &grids[..1] } else { &grids };
    environment(&mut text, name, caption, filled, notes);
    text
}

/// Columns beyond which letters and gaps are smaller, so that a page is wide enough.
const MANY: usize = 8;

pub(super) fn environment(
    text: &mut String,
    name: &str,
    caption: &str,
    grids: &[&Grid],
    notes: &[String],
) {
    let label = super::plain_name(name);
    let many = grids.iter().any(|grid| grid.headings.len() > MANY);
    let size = if many { "\\scriptsize\n  \\setlength{\\tabcolsep}{3pt}" } else { "\\small" };
    let _ = write!(
        text,
        "\\begin{{table}}\n  \\centering\n  {size}\n  \\caption{{{}}}\n  \\label{{tab:{label}}}\n",
        escaped(caption)
    );
    for (place, grid) in grids.iter().enumerate() {
        if place > 0 {
            text.push_str("\n  \\medskip\n\n");
        }
        text.push_str(&grid.tabular());
    }
    if !notes.is_empty() {
        *text += "\n  \\medskip\n\n  \\begin{minipage}{\\linewidth}\n    \\footnotesize\n";
        for note in notes {
            let _ = writeln!(text, "    {}\\par", escaped(&one_line(note)));
        }
        text.push_str("  \\end{minipage}\n");
    }
    text.push_str("\\end{table}\n");
}

/// A figure with the marks that the table gives it.
pub(super) fn figure(figure: &Figure) -> String {
    let shown = escaped(&figure.text);
    match figure {
        Figure { aside: true, .. } => format!("({shown})"),
        Figure { best: true, .. } => format!("\\textbf{{{shown}}}"),
        Figure { tied: true, .. } => format!("{shown}\\,{}", escaped("≈")),
        _ => shown,
    }
}

/// A text in which nothing is a command, for any engine. Letters that pdfLaTeX does not know as they stand are given
/// as commands, and by their number if there is none.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => safe.push_str("\\textbackslash{}"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '<' => safe.push_str("\\textless{}"),
            '>' => safe.push_str("\\textgreater{}"),
            '|' => safe.push_str("\\textbar{}"),
            '"' => safe.push_str("''"),
            '`' => safe.push_str("`{}"),
            // Two of them would become a dash.
            '-' => safe.push_str(if safe.ends_with('-') { "{}-" } else { "-" }),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                safe.push('\\');
                safe.push(letter);
            }
            ' '..='}' => safe.push(letter),
            other => match command(other) {
                Some(command) => safe.push_str(&command),
                // Latin letters with accents are known by every engine.
                None if ('\u{c0}'..='\u{17f}').contains(&other) => safe.push(other),
                None if other.is_whitespace() || other.is_control() => safe.push(' '),
                None => {
                    let _ = write!(safe, "[U+{:04X}]", other as u32);
                }
            },
        }
    }
    safe
}

/// What a letter beyond ASCII is called.
fn command(letter: char) -> Option<Cow<'static, str>> {
    const GREEK: [&str; 25] = [
        "\\alpha",
        "\\beta",
        "\\gamma",
        "\\delta",
        "\\varepsilon",
        "\\zeta",
        "\\eta",
        "\\theta",
        "\\iota",
        "\\kappa",
        "\\lambda",
        "\\mu",
        "\\nu",
        "\\xi",
        "o",
        "\\pi",
        "\\rho",
        "\\varsigma",
        "\\sigma",
        "\\tau",
        "\\upsilon",
        "\\varphi",
        "\\chi",
        "\\psi",
        "\\omega",
    ];
    let place = (letter as usize).checked_sub('α' as usize);
    if let Some(name) = place.and_then(|place| GREEK.get(place)) {
        return Some(format!("${name}$").into());
    }
    let symbol = match letter {
        '–' => "--",
        '—' => "---",
        '‘' => "`",
        '’' => "'",
        '“' => "``",
        '”' => "''",
        '…' => "\\dots{}",
        '†' => "\\textsuperscript{\\dag}",
        '±' => "$\\pm$",
        '×' => "$\\times$",
        '·' => "$\\cdot$",
        '−' => "$-$",
        '≈' => "$\\approx$",
        '≤' => "$\\leq$",
        '≥' => "$\\geq$",
        '≠' => "$\\neq$",
        '∞' => "$\\infty$",
        '→' => "$\\rightarrow$",
        '‖' => "$\\|$",
        '√' => "$\\surd$",
        '²' => "\\textsuperscript{2}",
        '³' => "\\textsuperscript{3}",
        '°' => "$^\\circ$",
        'Δ' => "$\\Delta$",
        'Λ' => "$\\Lambda$",
        'Σ' => "$\\Sigma$",
        'Φ' => "$\\Phi$",
        'Ω' => "$\\Omega$",
        _ => return None,
    };
    Some(symbol.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_a_command() {
        assert_eq!(
            escaped(r"\input{x} 50% of $a_b^c & #1 ~ |<>|"),
            "\\textbackslash{}input\\{x\\} 50\\% of \\$a\\_b\\textasciicircum{}c \\& \\#1 \\textasciitilde{} \
             \\textbar{}\\textless{}\\textgreater{}\\textbar{}"
        );
        assert_eq!(
            escaped("λ = 0.1, 95.3 ± 0.2, Müller"),
            "$\\lambda$ = 0.1, 95.3 $\\pm$ 0.2, Müller"
        );
        assert_eq!(escaped("`run --seeds 5`"), "`{}run -{}-seeds 5`{}");
        assert_eq!(escaped("αοω –†"), "$\\alpha$$o$$\\omega$ --\\textsuperscript{\\dag}");
        assert_eq!(escaped("中\u{1b}[1m\n"), "[U+4E2D] [1m ");
    }

    #[test]
    fn marks_are_those_of_the_table() {
        let of = |aside, best, tied| figure(&Figure { text: "1.0".to_owned(), aside, best, tied });
        assert_eq!(of(false, true, false), "\\textbf{1.0}");
        assert_eq!(of(true, false, false), "(1.0)");
        assert_eq!(of(false, false, true), "1.0\\,$\\approx$");
        assert_eq!(of(false, false, false), "1.0");
    }
}
