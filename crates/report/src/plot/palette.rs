//! The colours of pages and plots, by name. Style sheets use them as `var(--name)`.

/// A name and its colour.
pub(crate) type Colour = (&'static str, &'static str);

/// On screens by day, on paper, and in every figure that stands alone.
pub(crate) const LIGHT: &[Colour] = &[
    ("page", "#fbfbfa"),
    ("card", "#ffffff"),
    ("ink", "#1d2025"),
    ("muted", "#5d6470"),
    ("rule", "#e2e4e8"),
    ("accent", "#0b5e96"),
    ("warn", "#fdf3d8"),
    ("warn-ink", "#6b4e00"),
    ("code", "#f1f2f4"),
    ("bar", "#6c7a89"),
    ("bar-light", "#c3cad2"),
    ("down", "#3b7fc9"),
    ("shared", "#26885a"),
    ("personal", "#b97d00"),
    ("up", "#9450b8"),
    ("close", "#b8321f"),
    ("s0", "#0072b2"),
    ("s1", "#d55e00"),
    ("s2", "#008a65"),
    ("s3", "#aa4499"),
    ("s4", "#a07400"),
    ("s5", "#4d535c"),
    ("s6", "#2f8fc7"),
    ("s7", "#882255"),
];

/// On screens at night.
pub(crate) const DARK: &[Colour] = &[
    ("page", "#14161a"),
    ("card", "#1b1e24"),
    ("ink", "#e8eaed"),
    ("muted", "#a0a7b3"),
    ("rule", "#31363f"),
    ("accent", "#6cbcf2"),
    ("warn", "#3a3016"),
    ("warn-ink", "#f3d98b"),
    ("code", "#252931"),
    ("bar", "#8b98a8"),
    ("bar-light", "#4b5563"),
    ("down", "#5fa4ee"),
    ("shared", "#3fbf84"),
    ("personal", "#e6b450"),
    ("up", "#c48be0"),
    ("close", "#ff7b6b"),
    ("s0", "#4db1f0"),
    ("s1", "#ff8a4c"),
    ("s2", "#2fcb9e"),
    ("s3", "#e58ac6"),
    ("s4", "#efc04a"),
    ("s5", "#c9ced6"),
    ("s6", "#a5dcff"),
    ("s7", "#f2789f"),
];

/// The colours as declarations of a style sheet.
pub(crate) fn declarations(colours: &[Colour]) -> String {
    colours.iter().fold(String::new(), |all, (name, value)| all + "--" + name + ": " + value + "; ")
}

/// A style sheet with the colours in place of their names, for programs that know no variables.
pub(crate) fn resolved(style: &str, colours: &[Colour]) -> String {
    colours.iter().fold(style.to_owned(), |style, (name, value)| {
        style.replace(&format!("var(--{name})"), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of two colours after WCAG 2.2, from 1 to 21.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| {
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        (one / other).max(other / one)
    }

    #[test]
    fn texts_and_marks_stand_out_by_day_and_at_night() {
        for colours in [LIGHT, DARK] {
            let of = |name: &str| colours.iter().find(|(other, _)| *other == name).unwrap().1;
            let texts = [
                ("ink", "page"),
                ("ink", "card"),
                ("muted", "page"),
                ("muted", "card"),
                ("accent", "page"),
                ("accent", "card"),
                ("warn-ink", "warn"),
                ("ink", "code"),
            ];
            for (text, ground) in texts {
                let found = contrast(of(text), of(ground));
                assert!(found >= 4.5, "{text} on {ground}: {found}");
            }
            let lines = (0..8).map(|slot| format!("s{slot}"));
            let marks = ["bar", "down", "shared", "personal", "up", "close"].map(str::to_owned);
            for mark in lines.chain(marks) {
                let found = contrast(of(&mark), of("card"));
                assert!(found >= 3.0, "{mark}: {found}");
            }
        }
    }

    #[test]
    fn day_and_night_name_the_same_colours() {
        let names = |colours: &[Colour]| colours.iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(names(LIGHT), names(DARK));
        let style = resolved(super::super::STYLE, LIGHT);
        assert!(!style.contains("var("), "{style}");
    }
}
