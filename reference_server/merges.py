"""The merges of the vocabulary, most frequent first: the data of vocab.py.

Learned once, offline, by ordinary byte-pair counting over common English words, digits, JSON punctuation
and a few characters of other scripts. Bytes are spelled as in GPT-2's vocabulary: printable ASCII as itself,
a space as Ġ, other bytes as letters from U+0100 on.
"""

MERGES = r"""
er Ġt he at re Ġw Ġa in ou Ġs ll ,Ġ en Ġb :Ġ ":Ġ Ġo Ġl ar or an Ġm ed Ġf Ġc ver ow ri nd st ,Ġ" Ġthe Ġh
me Ġp ter it {" ":Ġ" ",Ġ" ld al Ġre ay le ro Ġd Ġbe gh se Ġg her ĠT "} ea et ght ing Ġto ain ai ss Ġn
ore ge ure Ġth ent ant ard .Ġ Ġhe ist Ġsi per eat day llo istant ati ot Ġv on Ġwin is Ġbri ĠThe ke ce ue
Ġof our ĠI ound Ġan ame ill ve Ġand Ġwor all Ġli as Ġe eac Ġon Ġy very mb mber nt Ġin fore ater Ġsai
ount wer On ui Ġlo lp hou ate age pen mall ven ond oll ollow round oday swer su ross ity kee em river
ountain lor atc red rob member tern oward orn orning qui Ġis Ġlet dow Ġname Ġlan He Ġhelp house Every
Ġwh Ġcar Ġbefore cross Once Ġold yond vening ured ted sul sult ssistant robot ried quiet perat perature
pened pai paired ollowed nal membered lever lver keeper illage hed ghthouse gnal entle eneat eneath
emperature eather eacher dge cati cation bour atient atched arden arbour alue ainted Later Hello Ġsmall
ull Ġworld ad Ġanswer Ġcity Ġletter Ġriver eas Ġmountain Ġfor Ġmeas Ġtoward Ġmorning Ġthat orest Ġwinter
Ġwindow Ġweather Ġwatched Ġvillage Ġvalue Ġtoday Ġtemperature Ġteacher Ġsilver Ġsignal Ġsailor Ġresult
Ġrepaired Ġremembered Ġpatient Ġpainted Ġopened Ġmeasured Ġlocation Ġlighthouse Ġlantern Ġhello Ġharbour
Ġgentle Ġgarden Ġforest Ġfollowed Ġevening Ġdistant Ġdate Ġcarried Ġclever Ġbright Ġbridge Ġbeyond
Ġbeneath Ġassistant Ġaround Ġacross ĠThen ĠToday ĠIn Ġrobot Ġquiet Ġkeeper ĠOnce ĠLater ĠHello ĠEvery Ġu
ith Ġit ĠĠ Ġyou ome ch ut Ġwas out Ġas {} null ir "] Ġwith ave Ġare the rue âĢ Ġst rom alse Ġthey Ġwe oo
[" ":Ġ{ Ġat and Ġone ould The Ġ9 Ġ8 Ġ7 Ġ6 Ġ5 Ġ4 Ġ3 Ġ2 Ġ1 Ġhave th Ġor Ġthis Ġfrom ere Ġhot Ġhad }] ..
":Ġ[ Ġby ake ct Ġse Ġne Ġbut Ġpl hen Ġwhat Ġsome ther true false Ġcan ind each Ġman Ġout te ong im id
Ġother ple Ġwere ck ich be Ġall ood ime Ġyour Ġab ry Ġwhen Ġk Ġup Ġuse ly ear Ġword Ġmo Ġhow of Ġsaid
rite Ġeach Ġshe Ġwhich ace Ġtheir Ġtrue Ġso si now Ġtime Ġwill Ġway Ġmu Ġgo wo ough art Ġabout to ok
Ġmany Ġthen Ġsh Ġthem ree ell Ġwould ive Ġwrite Ã© [] In ... "}, Ġnull Ġlike Ġfalse Ġco ĠĠĠĠ ur Ġme own
ack Ġthese Ġnu Ġlong Ġher right lo ine ight Th Ġmake Ġbo Ġwho Ġthing Ġdo Ġsee Ġhim irst Ġtwo Ġhas ople
eople Ġmore Ġlook âĢĻ win Ġday Ġcould ĊĊ ap Ġdid Ġcome Ġr wor use old Of Ġsound Ġmy one here Ġno wh for
end ade are Ġnumber Ġmost that ence Ġover ust ort fter de Ġwater Ġthan Ġknow tle so ittle es Ġfirst Ġfe
Ġcall mple Ġpeople Ġmay âĢĿ âĢľ âĢĶ Ã¼ }, we other And Ġside Ġsu Ġpo Ġdown Ġbeen Ġal Ġ0 you nder el Ġnow
Ġfind Ġdi tter sai rough ig dy aw To Ġwork Ġnew Ġgre Ġany Ġag li Ġtake Ġread Ġpart Ġget ile Ġplace Ġmade
Ġlive Ġch was just ink Ġwhere Ġback Ġafter Ġro urn ep ause Ġonly Ġlittle Ġround with ook ff ffer alk ast
Ġyear Ġshow Ġcame entence Ġsp Ġpi Ġgr Ġgood Ġgive Ġevery Then Ġunder Ġvery Ġour Ã¶ Ã¤ name lan Ġthrough
Ġmuch Ġform Ġear Ġagain Ġjust way small help car before ach Is Ġthink Ġsay Ġgreat world ought ark arge
answer ass Ġturn Ġlow Ġline Ġcause Ġbeg oth ng meas mountain letter igh city For
"""
