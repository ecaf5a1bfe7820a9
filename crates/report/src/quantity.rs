//! Figures and texts as people read them in a report.

pub(crate) use formant_runtime::quantity::{bytes, count};

/// A fraction in percent with one decimal, without the sign: `97.4`.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1}", fraction * 100.0)
}

/// A difference of fractions in percentage points, with its sign: `+2.3`, `−0.4`, `0.0`.
pub(crate) fn signed(difference: f64) -> String {
    let written = format!("{:.1}", difference.abs() * 100.0);
    match (written == "0.0", difference < 0.0) {
        (true, _) => written,
        (false, true) => format!("−{written}"),
        (false, false) => format!("+{written}"),
    }
}

/// A figure of any size, with three digits that count: `0.0123`, `1.25`, `3.10e-6`.
pub(crate) fn magnitude(figure: f64) -> String {
    if figure == 0.0 {
        return "0".to_owned();
    }
    match figure.abs().log10().floor() {
        decade if (0.0..=3.0).contains(&decade) => {
            format!("{figure:.*}", 2 - decade.min(2.0) as usize)
        }
        decade if (-4.0..0.0).contains(&decade) => format!("{figure:.*}", (2.0 - decade) as usize),
        _ => format!("{figure:.2e}"),
    }
}

/// A time in its two leading units: `0.42 s`, `12.3 s`, `4m 05s`, `2h 13m`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".to_owned();
    }
    // The limits lie where the shorter form would round up to the next unit.
    if seconds < 0.995 {
        return format!("{seconds:.2} s");
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    if whole < 3600 {
        return format!("{}m {:02}s", whole / 60, whole % 60);
    }
    let minutes = (seconds / 60.0).round() as u64;
    format!("{}h {:02}m", count(minutes / 60), minutes % 60)
}

/// `1 round`, `2 rounds`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number as u64))
}

/// A text on one line without control characters, which could steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// At most `limit` characters of a text, the last one an ellipsis if something is left out.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_never_show_sixty_of_a_unit() {
        let shown = [0.0, 0.994, 0.996, 59.94, 59.96, 3599.4, 3599.6, 7_199.0, 86_400.0]
            .map(duration)
            .join(" | ");
        assert_eq!(
            shown,
            "0.00 s | 0.99 s | 1.0 s | 59.9 s | 1m 00s | 59m 59s | 1h 00m | 2h 00m | 24h 00m"
        );
        assert_eq!(duration(f64::NAN), "–");
    }

    #[test]
    fn a_difference_has_a_sign_unless_it_is_none() {
        let shown = [0.0, 0.0004, -0.0004, 0.023, -0.5].map(signed).join(" ");
        assert_eq!(shown, "0.0 0.0 0.0 +2.3 −50.0");
    }

    #[test]
    fn figures_of_any_size_keep_three_digits() {
        let shown = [0.0, 1.253, 42.0, 1234.0, 0.01234, 0.000_123_4, 3.1e-6, 1e7].map(magnitude);
        assert_eq!(shown.join(" "), "0 1.25 42.0 1234 0.0123 0.000123 3.10e-6 1.00e7");
    }

    #[test]
    fn shortened_texts_keep_to_their_limit_in_characters() {
        assert_eq!(shortened("größer", 6), "größer");
        assert_eq!(shortened("größer als", 7), "größer…");
    }
}
