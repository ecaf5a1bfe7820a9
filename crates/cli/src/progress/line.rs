//! What a line of progress says in as many columns as there are.

use std::time::Duration;

/// Columns of the shortest bar that is drawn, and of the longest.
const BAR: (usize, usize) = (6, 28);

/// One line: who, how far, what it has reached, how long it still takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Line {
    /// Who it is about.
    pub(crate) title: String,
    /// Columns that all titles take.
    pub(crate) width: usize,
    /// `12/30`.
    pub(crate) count: String,
    /// What may be left out.
    pub(crate) scores: String,
    /// Time left, or taken.
    pub(crate) time: String,
}

impl Line {
    /// The title, the columns of the bar and the text behind it, for a terminal of so many columns. What does not fit is
    /// left out whole: the bar, then the scores. Only a long title is cut.
    pub(crate) fn fit(&self, columns: usize) -> (String, usize, String) {
        let wide = columns.saturating_sub(1);
        let width = self.width.min((wide / 3).max(8));
        let title = format!("{:width$}", shortened(&self.title, width));
        let text = |scores: &str| format!("{}{scores}  {}", self.count, self.time);
        let room = |text: &str| wide.checked_sub(width + 1 + text.chars().count());
        let mut chosen = text(&self.scores);
        if room(&chosen).is_none() {
            chosen = text("");
        }
        // A space behind it.
        let bar = room(&chosen).unwrap_or(0).saturating_sub(1).min(BAR.1);
        (title, if bar < BAR.0 { 0 } else { bar }, chosen)
    }

    /// The same for a log file.
    pub(crate) fn plain(&self) -> String {
        let Self { title, width, count, scores, time } = self;
        format!("{title:width$} {count}{scores}  {time}")
    }
}

/// A text that is no longer than so many columns.
fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A text in lines of at most so many columns, broken between words.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let (mut lines, mut taken) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if taken > 0 && taken + 1 + length > columns {
            lines.push('\n');
            taken = 0;
        } else if taken > 0 {
            lines.push(' ');
            taken += 1;
        }
        lines.push_str(word);
        taken += length;
    }
    lines
}

/// `0:07`, `12:30`, `1:02:03`.
pub(crate) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m}:{s:02}") }
}

/// `1:02 left`, or that nobody knows yet.
pub(crate) fn left(time: Option<Duration>) -> String {
    // A second that has begun is still to come.
    time.map_or("estimating…".into(), |time| {
        format!("{} left", short(time + Duration::from_millis(999)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(title: &str, scores: &str) -> Line {
        Line {
            title: title.into(),
            width: title.chars().count(),
            count: "  12/30".into(),
            scores: scores.into(),
            time: left(Some(Duration::from_secs(3_723))),
        }
    }

    #[test]
    fn every_width_gets_a_whole_line() {
        let scores = "  GM  96.3  PM  95.8";
        for title in ["SCD", "SCD complex", "Spectral co-distillation without the generic term"] {
            for columns in [40, 50, 60, 80, 120] {
                let (title, bar, text) = line(title, scores).fit(columns);
                let taken = title.chars().count() + bar + 2 + text.chars().count();
                let taken = taken - usize::from(bar == 0);
                assert!(taken < columns, "{columns}: {title} {bar} {text}");
                assert!(text.contains("12/30") && text.ends_with("1:02:03 left"), "{text}");
                assert_eq!(text.contains("PM  95.8"), text.contains("GM  96.3"));
            }
            let (_, bar, text) = line(title, scores).fit(80);
            assert!(bar >= 6 && text.contains("PM"), "{title}");
        }
    }

    #[test]
    fn words_stay_whole() {
        let text = "longish: 3 methods on mnist-small, 8 clients with 6,001 samples";
        let lines = wrapped(text, 20);
        assert!(lines.lines().all(|line| line.chars().count() <= 20), "{lines}");
        assert_eq!(
            (lines.replace('\n', " "), wrapped(text, usize::MAX)),
            (text.into(), text.into())
        );
    }

    #[test]
    fn times_are_short_and_honest() {
        let times = [0, 7, 750, 3_723].map(|seconds| short(Duration::from_secs(seconds)));
        assert_eq!(times, ["0:00", "0:07", "12:30", "1:02:03"]);
        assert_eq!(left(None), "estimating…");
        assert_eq!(left(Some(Duration::from_millis(300))), "0:01 left");
        assert_eq!(left(Some(Duration::ZERO)), "0:00 left");
    }
}
