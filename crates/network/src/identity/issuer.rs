//! An authority's certificate read again, so that it can sign.

use super::der::{self, Reader, Tag};
use super::x509::{self, Certificate};
use rcgen::string::{BmpString, UniversalString};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose,
};

/// In the order of their bits.
const USAGES: [KeyUsagePurpose; 9] = [
    KeyUsagePurpose::DigitalSignature,
    KeyUsagePurpose::ContentCommitment,
    KeyUsagePurpose::KeyEncipherment,
    KeyUsagePurpose::DataEncipherment,
    KeyUsagePurpose::KeyAgreement,
    KeyUsagePurpose::KeyCertSign,
    KeyUsagePurpose::CrlSign,
    KeyUsagePurpose::EncipherOnly,
    KeyUsagePurpose::DecipherOnly,
];

/// Who signs, or what is wrong with the certificate.
pub(crate) fn of(
    certificate: &Certificate<'_>,
    key: KeyPair,
) -> Result<Issuer<'static, KeyPair>, String> {
    let damaged =
        |what: &str| format!("it is not an authority's certificate ({what} cannot be read)");
    let mut params = CertificateParams::default();
    params.distinguished_name = name(certificate).ok_or_else(|| damaged("its subject"))?;
    if let Some(usage) = certificate.extension(x509::KEY_USAGE)? {
        params.key_usages = usages(usage).ok_or_else(|| damaged("the use of its key"))?;
    }
    // What the certificates that it signs say of it must be what it says of itself.
    if let Some(own) = certificate.extension(x509::SUBJECT_KEY)? {
        let mark = Reader::new(own).content(der::OCTET_STRING);
        let mark = mark.ok_or_else(|| damaged("the mark of its key"))?;
        params.key_identifier_method = KeyIdMethod::PreSpecified(mark.to_vec());
    }
    Ok(Issuer::new(params, key))
}

fn usages(usage: &[u8]) -> Option<Vec<KeyUsagePurpose>> {
    let (_, bits) = Reader::new(usage).content(der::BIT_STRING)?.split_first()?;
    let is_set = |at: usize| bits.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
    let set = USAGES.iter().enumerate().filter(|&(at, _)| is_set(at));
    Some(set.map(|(_, usage)| *usage).collect())
}

fn name(certificate: &Certificate<'_>) -> Option<DistinguishedName> {
    let mut name = DistinguishedName::new();
    for part in x509::attributes(&certificate.subject)? {
        let kind = DnType::from_oid(&x509::numbers(part.identifier)?);
        // A second value of a kind would replace the first, and make it another name.
        if name.get(&kind).is_some() {
            return None;
        }
        name.push(kind, value(part.tag, part.value)?);
    }
    Some(name)
}

/// A text in the encoding that it has.
fn value(tag: Tag, content: &[u8]) -> Option<DnValue> {
    let text = || str::from_utf8(content).ok();
    Some(match tag {
        der::UTF8_STRING => DnValue::Utf8String(text()?.to_owned()),
        der::PRINTABLE_STRING => DnValue::PrintableString(text()?.try_into().ok()?),
        der::IA5_STRING => DnValue::Ia5String(text()?.try_into().ok()?),
        der::TELETEX_STRING => DnValue::TeletexString(text()?.try_into().ok()?),
        der::BMP_STRING => DnValue::BmpString(BmpString::from_utf16be(content.to_vec()).ok()?),
        der::UNIVERSAL_STRING => {
            DnValue::UniversalString(UniversalString::from_utf32be(content.to_vec()).ok()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, IsCa};

    /// An authority from elsewhere signs as it did before its certificate was written and read.
    #[test]
    fn an_authority_signs_alike_before_and_after() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.key_identifier_method = KeyIdMethod::Sha384;
        params.distinguished_name = DistinguishedName::new();
        let country = DnValue::PrintableString("DE".try_into().unwrap());
        params.distinguished_name.push(DnType::CountryName, country);
        params.distinguished_name.push(DnType::OrganizationName, "Klinik Süd");
        let mail = DnValue::Ia5String("ca@example.org".try_into().unwrap());
        params.distinguished_name.push(DnType::from_oid(&[1, 2, 840, 113_549, 1, 9, 1]), mail);
        let bmp = DnValue::BmpString("Südstadt".try_into().unwrap());
        params.distinguished_name.push(DnType::LocalityName, bmp);
        let certificate = params.self_signed(&key).unwrap();

        let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        let read = of(&Certificate::read(certificate.der()).unwrap(), again).unwrap();
        let before = Issuer::new(params, key);
        assert_eq!(read.key_usages(), before.key_usages());
        let mut leaf = CertificateParams::default();
        leaf.use_authority_key_identifier_extension = true;
        let owner = KeyPair::generate().unwrap();
        let leaves = [&before, &read].map(|by| leaf.signed_by(&owner, by).unwrap());
        // All but the signature, which is made with random numbers.
        let bodies = leaves.each_ref().map(|leaf| {
            let mut parts = Reader::new(leaf.der()).parts(der::SEQUENCE).unwrap();
            parts.content(der::SEQUENCE).unwrap().to_vec()
        });
        assert_eq!(bodies[0], bodies[1]);
    }

    #[test]
    fn a_key_for_everything() {
        assert_eq!(usages(&[3, 3, 7, 0xff, 0x80]).unwrap(), USAGES);
        assert_eq!(usages(&[3, 2, 1, 0x06]).unwrap(), USAGES[5..7]);
        assert_eq!(usages(&[3, 1, 0]).unwrap(), []);
        assert_eq!(usages(&[4, 1, 0]), None);
    }
}
