//! Enums that are written as words.

/// An enum whose variants are words of a file, so that the words of a
/// [`Kind::Choice`](crate::schema::Kind::Choice) and what they mean are written down once.
///
/// ```
/// formant_methods::choice! {
///     /// How loud.
///     pub enum Volume {
///         /// Nobody hears it.
///         Quiet = "quiet",
///         /// Everybody does.
///         VeryLoud = "very-loud",
///     }
/// }
/// assert_eq!(Volume::WORDS, ["quiet", "very-loud"]);
/// assert_eq!(Volume::VeryLoud.word(), "very-loud");
/// ```
#[macro_export]
macro_rules! choice {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$each:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $vis enum $name {
            $($(#[$each])* #[serde(rename = $word)] $variant),+
        }

        #[allow(dead_code, reason = "not every enum is asked for both")]
        impl $name {
            /// The words, in the order of the variants.
            $vis const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for it.
            $vis const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}
